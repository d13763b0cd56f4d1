"""Mechanisms of others, the public bugs among them re-created as small functions: each must be refuted."""

import json

import numpy as np
import pytest

from gradveil.auditing.audits import Effort
from gradveil.auditing.outside import Outside, audit_outside
from gradveil.cli.main import main
from gradveil.errors import BadInput


def clipped(units, bound=1.0):
    norms = np.linalg.norm(units, axis=1, keepdims=True)
    return units * np.minimum(1.0, bound / np.maximum(norms, 1e-30))


def sound(units, seed):
    return clipped(units).sum(axis=0) + 2.0 * np.random.default_rng(seed).normal(size=units.shape[1])


def lot_size_from_the_data(units, seed):
    """Opacus issue 819: the noised sum is divided by how many there are."""
    noise = 2.0 * np.random.default_rng(seed).normal(size=units.shape[1]) / 16
    return clipped(units).sum(axis=0) / max(len(units), 1) + noise


def per_layer_noise_without_the_root(units, seed):
    """Every of four layers is clipped to C and noised by z C, as if the whole were clipped to C."""
    layers = [clipped(part).sum(axis=0) for part in np.split(units, 4, axis=1)]
    return np.concatenate(layers) + 2.0 * np.random.default_rng(seed).normal(size=units.shape[1])


def engine_rebuilt_with_the_same_key(units, seed):
    """Two rounds whose generator is made anew from one key, each with half of the units."""
    halves = clipped(units[0::2]), clipped(units[1::2])
    return np.stack(
        [half.sum(axis=0) + 2.0 * np.random.default_rng(seed).normal(size=units.shape[1]) for half in halves]
    )


def key_that_ignores_the_seed(units, seed):
    return sound(units, 7)


def inverted_bit(units, seed, rounds=12):
    """Flower's adaptive clipping: the bit of a unit within the bound is inverted, so C grows while noise stays."""
    bound = 1.0
    for _ in range(rounds):
        within = np.mean(np.linalg.norm(units, axis=1) > bound)
        bound *= np.exp(-0.2 * (0.5 - within))
    return clipped(units, bound).sum(axis=0) + 2.0 * np.random.default_rng(seed).normal(size=units.shape[1])


def noise_that_follows_the_units(units, seed):
    cut = clipped(units)
    largest = np.linalg.norm(cut, axis=1).max(initial=0.01)
    return cut.sum(axis=0) + 2.0 * largest * np.random.default_rng(seed).normal(size=units.shape[1])


def divided_by_its_norm(units, seed):
    """Units of zeros become numbers that are none, without the unit as with it."""
    with np.errstate(invalid="ignore"):
        total = (units / np.linalg.norm(units, axis=1, keepdims=True)).sum(axis=0)
    return total + 2.0 * np.random.default_rng(seed).normal(size=units.shape[1])


BUGS = [
    lot_size_from_the_data,
    per_layer_noise_without_the_root,
    engine_rebuilt_with_the_same_key,
    key_that_ignores_the_seed,
    inverted_bit,
    noise_that_follows_the_units,
]


def audited(mechanism, **changes):
    return audit_outside(Outside(name=mechanism.__name__, mechanism=mechanism, noise_multiplier=2.0, **changes))


@pytest.mark.parametrize("mechanism", BUGS)
def test_a_public_bug_is_refuted(mechanism):
    assert audited(mechanism).verdict == "refuted"


def test_a_sound_mechanism_is_not_refuted_and_is_measured_closely():
    record = audited(sound, releases=1000)
    assert record.verdict == "consistent"
    replayed = record.rows[0]
    assert 0.9 * replayed.claimed < replayed.lower_bound <= replayed.claimed


def laplace(units, seed, scale=1.0):
    """A sum of units within an L1 norm of 1, under Laplace noise: exactly 1 / scale, at delta = 0."""
    cut = units / np.maximum(1.0, np.abs(units).sum(axis=1, keepdims=True))
    return cut.sum(axis=0) + np.random.default_rng(seed).laplace(scale=scale, size=units.shape[1])


def answers_at_random(units, seed):
    """Whether a unit is large, with the wrong answer once in e^6 + 1: exactly 6 at delta = 0, and seldom random."""
    wrong = np.random.default_rng(seed).random() < 1 / (1 + np.exp(6))
    return np.float64(bool(np.abs(units).max() > 100) != wrong)


@pytest.mark.parametrize(("mechanism", "epsilon"), [(laplace, 1.0), (answers_at_random, 6.0)])
def test_a_true_epsilon_of_other_noise_than_gaussian_is_not_refuted(mechanism, epsilon):
    record = audit_outside(Outside(name="true", mechanism=mechanism, epsilon=epsilon, dimension=2, releases=1000))
    assert record.verdict != "refuted"


def test_an_epsilon_says_nothing_of_the_noise_so_replay_shows_nothing_and_says_why():
    replayed, drawn = audit_outside(
        Outside(name="laplace", mechanism=laplace, epsilon=0.2, dimension=2, releases=1000)
    ).rows
    assert (replayed.verdict, replayed.lower_bound) == ("consistent", 0)
    assert "mechanism" in replayed.why
    assert drawn.verdict == "refuted"


@pytest.mark.parametrize("mechanism", [lambda units, seed: clipped(units).sum(axis=0), key_that_ignores_the_seed])
def test_no_noise_at_all_refutes_an_epsilon_by_as_much_as_so_many_calls_can_show(mechanism):
    (replayed, _) = audit_outside(Outside(name="none", mechanism=mechanism, epsilon=2.0, releases=400)).rows
    assert replayed.verdict == "refuted"
    assert replayed.lower_bound <= replayed.ceiling < np.log(200)


def test_what_is_not_finite_with_the_unit_alone_is_refuted_under_an_epsilon_too():
    def overflows(units, seed):
        return sound(units, seed) / (np.abs(units).max() < 1000)

    with np.errstate(divide="ignore"):
        (replayed, _) = audit_outside(Outside(name="overflows", mechanism=overflows, epsilon=2.0, releases=400)).rows
    assert replayed.verdict == "refuted"
    assert "not finite" in replayed.why


def test_a_release_of_nothing_but_a_claim_of_much_has_no_power():
    record = audit_outside(Outside(name="sound", mechanism=sound, epsilon=900.0, releases=400))
    assert {row.verdict for row in record.rows} == {"no-power"}


def test_false_alarms_of_a_sound_mechanism_are_as_rare_as_the_confidence_says():
    quick = {"releases": 200, "units": 2, "dimension": 2, "confidence": 0.9}
    wrong = sum(
        audit_outside(Outside(name="s", mechanism=sound, noise_multiplier=2.0, **quick), seed * 10**7).verdict
        == "refuted"
        for seed in range(12)
    )
    assert wrong <= 4


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"epsilon": 1.0, "noise_multiplier": 1.0}, "claimed_epsilon"),
        ({}, "claimed_epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": 1.0, "units": 1}, "units"),
    ],
)
def test_a_claim_that_cannot_be_tested_is_refused(changes, word):
    with pytest.raises(BadInput, match=word):
        Outside(name="sound", mechanism=sound, **changes)


def test_a_confidence_out_of_range_is_refused():
    with pytest.raises(BadInput, match="confidence"):
        Effort(confidence=1.0)


def fails(units, seed):
    raise KeyError("weights\nof the model")


def leaves(units, seed):
    raise SystemExit(0)


def of_two_sizes(units, seed):
    return np.zeros(2 + (seed == 50))


BROKEN = [
    (fails, "raised KeyError"),
    (leaves, "raised SystemExit"),
    (of_two_sizes, "must agree"),
    (divided_by_its_norm, "not finite"),
    (lambda units, seed: None, "returned None"),
    (lambda units, seed: "1.5", "returned '1.5'"),
    (lambda units, seed: ["1.5", "2"], "returned ['1.5', '2']"),
    (lambda units, seed: [[1.0], [1.0, 2.0]], "returned [[1.0], [1.0, 2.0]]"),
    (lambda units, seed: np.zeros(2, complex), "returned array"),
    (lambda units, seed: [], "must agree"),
    (lambda units, seed: clipped(units).ravel(), "must agree"),
]


@pytest.mark.parametrize(("mechanism", "said"), BROKEN)
def test_a_function_that_is_broken_is_refused_in_one_sentence_that_names_it(mechanism, said):
    with pytest.raises(BadInput) as refusal:
        audit_outside(Outside(name="mine:release", mechanism=mechanism, epsilon=1.0, releases=400))
    sentence = str(refusal.value)
    assert sentence.startswith("mechanism = mine:release: ")
    assert said in sentence
    assert "\n" not in sentence


def test_a_function_may_write_into_the_units_that_it_is_given():
    def emptied(units, seed):
        released = sound(units, seed)
        units[:] = 0
        return released

    replayed = audited(emptied, releases=200).rows[0]
    assert 0.9 * replayed.claimed < replayed.lower_bound <= replayed.claimed


MODULE = """
import numpy as np

def release(units, seed):
    scale = 1 / np.maximum(1, np.linalg.norm(units, axis=1, keepdims=True))
    return (units * scale).sum(axis=0) + np.random.default_rng(seed).normal(size=units.shape[1])
"""


@pytest.mark.parametrize(("claimed", "code", "verdict"), [("1.0", 0, "consistent"), ("4.0", 1, "refuted")])
def test_a_function_is_audited_from_the_command_line(claimed, code, verdict, tmp_path, monkeypatch, capsys):
    (tmp_path / "somebodys.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    options = ["--noise-multiplier", claimed, "--releases", "400", "--json", "--junit", "audit.xml"]
    assert main(["audit", "--mechanism", "somebodys:release", *options]) == code
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == verdict
    assert set(answer["rows"][0]) >= {
        "threat_model",
        "unit",
        "delta",
        "claimed",
        "lower_bound",
        "ceiling",
        "confidence",
        "level",
        "verdict",
        "seconds",
        "paper_claims",
    }
    xml = (tmp_path / "audit.xml").read_text()
    assert ("<failure" in xml) is (code == 1)


BROKEN_MODULE = """
def release(units, seed):
    return units.no_such_thing
"""


@pytest.mark.parametrize(("text", "said"), [(BROKEN_MODULE, "AttributeError"), ("1 / 0\n", "ZeroDivisionError")])
def test_code_that_fails_is_bad_input_and_refutes_nothing(text, said, tmp_path, monkeypatch, capsys):
    name = f"broken_{said.lower()}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["audit", "--mechanism", f"{name}:release", "--noise-multiplier", "1"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nothing", "no_such_module:release", "json:no_such_function", "json:__name__"])
def test_a_mechanism_that_is_none_is_one_sentence(name, capsys):
    assert main(["audit", "--mechanism", name, "--noise-multiplier", "1"]) == 2
    assert "mechanism = " in capsys.readouterr().err


@pytest.mark.parametrize("option", ["claimed-epsilon", "noise-multiplier", "clip", "units", "dimension", "delta"])
def test_options_of_mechanisms_are_refused_by_name_where_none_is_given(option, capsys):
    assert main(["audit", "fed-cdp", "--level", "replay", f"--{option}", "1"]) == 2
    assert f"--{option}: goes with --mechanism" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"), [("victims", "400"), ("dataset", "digits"), ("data-dir", "."), ("level", "black-box")]
)
def test_options_of_plans_are_refused_by_name_where_a_mechanism_is_given(option, value, capsys):
    assert main(["audit", "--mechanism", "m:f", "--noise-multiplier", "1", f"--{option}", value]) == 2
    assert f"--{option}" in capsys.readouterr().err


@pytest.mark.parametrize("level", ["replay", "mechanism"])
def test_a_function_is_audited_at_the_level_that_is_asked_for(level, tmp_path, monkeypatch, capsys):
    (tmp_path / "somebodys.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    options = ["--noise-multiplier", "1", "--releases", "400", "--json", "--level", level]
    assert main(["audit", "--mechanism", "somebodys:release", *options]) == 0
    assert {row["level"] for row in json.loads(capsys.readouterr().out)["rows"]} == {level}
