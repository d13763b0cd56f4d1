"""The page and the card of a run: what they say, what they hide, and that they stand alone."""

import json
import math
import re
import shutil
from dataclasses import fields, replace
from html.parser import HTMLParser

import jsonschema
import numpy as np
import pytest

from gradveil.cli.main import main
from gradveil.errors import BadInput
from gradveil.leakage.attack_record import AttackRecord
from gradveil.reports import card, evidence, figures, guarantee_rows, words
from gradveil.reports.attack_views import exhibits, features
from gradveil.reports.charts import INK, Line, curves
from gradveil.reports.exhibits import Exhibit
from gradveil.reports.first_screen import verdict
from gradveil.reports.page import page
from gradveil.runs import store

pytestmark = pytest.mark.slow
SMALL = [
    "--clients",
    "4",
    "--cohort",
    "4",
    "--client-size",
    "40",
    "--batch",
    "4",
    "--local-steps",
    "1",
    "--rounds",
    "3",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory, room):
    """Runs on pictures, on a built-in table and on a user's own table, with and without protection."""
    root = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    rows = [
        f"{a:.3f},{'ruby' if a > 0 else 'opal'},{'yes' if a + b > 0 else 'no'}" for a, b in rng.normal(size=(300, 2))
    ]
    (root / "own.csv").write_text("\n".join(["amount,gem,outcome", *rows]))
    own = [
        "--dataset",
        str(root / "own.csv"),
        "--target",
        "outcome",
        "--noise-source",
        "seeded",
        "--seed",
        "424242",
        "--keep-truth",
    ]
    wanted = {
        "digits": ["--dataset", "digits", "--method", "fed-cdp", "--max-epsilon", "50"],
        "bare": ["--dataset", "digits", "--method", "non-private"],
        "table": ["--dataset", "synthetic", "--method", "fed-sdp-client"],
        "own": [*own, "--method", "non-private"],
    }
    for name, flags in wanted.items():
        assert main(["run", *SMALL, *flags, "--attack", "--json", "--out", str(root / name)]) == 0
        room()
    return root


class Reader(HTMLParser):
    """Collects what a page refers to, its texts, and elements that lack what they need."""

    def __init__(self):
        super().__init__()
        self.references, self.lacking, self.open = [], [], []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.references += [
            v for k, v in attributes if k in ("src", "href", "xlink:href") and v and not v.startswith("#")
        ]
        if tag == "img" and not given.get("alt"):
            self.lacking.append(tag)
        if tag == "svg":
            label = next((a.get("aria-label") for t, a in reversed(self.open) if t == "div"), None)
            if not label and not given.get("aria-label"):
                self.lacking.append(tag)
        if tag not in ("img", "meta", "br", "hr", "input", "path", "use", "link"):
            self.open.append((tag, given))

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass


def read(text):
    reader = Reader()
    reader.feed(text)
    return reader


@pytest.mark.parametrize("name", ["digits", "bare", "table", "own"])
def test_a_page_stands_alone_and_tells_everything_in_words_too(runs, name):
    text = page([evidence.gather(runs / name)])
    reader = read(text)
    assert [r for r in reader.references if not r.startswith("data:")] == []
    assert reader.lacking == []
    assert "<script" not in text
    assert "@import" not in text
    assert "url(http" not in text
    assert len(text) < 5_000_000
    assert "What is guaranteed" in text
    assert "Reproduce this run" in text


def test_every_run_ends_with_its_page_and_card(runs):
    for name in ("digits", "bare", "table", "own"):
        assert {"report.html", "privacy_card.md", "privacy_card.json"} <= {p.name for p in (runs / name).iterdir()}


def test_the_guarantee_is_told_with_unit_adversary_and_caveats(runs):
    run = evidence.gather(runs / "digits")
    text = page([run])
    held = run.guarantee
    assert held.finite
    assert f"epsilon {held.epsilon:.3g} at delta 1e\u201105, for one example" in text
    assert "delta 1e-05" not in text
    assert "an honest-but-curious server" in text
    assert all(caveat.split(";")[0] in text for caveat in held.caveats)
    assert "not a guarantee" in text
    assert "budget" in text  # the line of --max-epsilon


def told(run):
    return " ".join(f"{tile.answer}: {tile.says}" for tile in verdict(run))


def test_the_first_screen_says_accuracy_beside_a_baseline_the_promise_and_the_leak(runs):
    gathered = [evidence.gather(runs / name) for name in ("digits", "bare")]
    protected, bare = map(told, gathered)
    assert "a strong guarantee" in protected or "a moderate guarantee" in protected
    assert f"epsilon {gathered[0].guarantee.epsilon:.3g}: Against an honest-but-curious server" in protected
    assert "no privacy guarantee" in bare
    assert "recovered part of the data" in bare
    for run, said in zip(gathered, (protected, bare), strict=True):
        low, high = run.result.accuracy_interval
        assert f"{run.result.accuracy:.1%} of 450 test examples (95 % interval {low:.1%} to {high:.1%})" in said
        assert f"the most frequent class is right on {run.result.majority_baseline:.1%}" in said
        first = page([run]).partition("What is guaranteed</h3>")[0]
        assert first.count('class="answer"') == 3
        assert first.count('<span class="badge') == 3


def test_adversaries_with_the_same_guarantee_share_a_row_and_none_is_lost(runs):
    for name in ("digits", "bare", "own"):
        run = evidence.gather(runs / name)
        rows = guarantee_rows.rows(run)
        named = [adversary for row in rows for adversary, _ in row["adversaries"]]
        assert sorted(named) == sorted(g.threat_model for g in run.result.guarantees)
        for row in rows:
            held = [run.result.guarantee(adversary) for adversary, _ in row["adversaries"]]
            assert {g.unit for g in held} == {row["unit"]}
            assert {"none finite" if g.epsilon is None else f"{g.epsilon:.3g}" for g in held} == {row["epsilon"]}
        shown = [(row["unit"], row["epsilon"], row["sampling"], row["caveat"]) for row in rows]
        assert len(set(shown)) == len(shown)
    assert len(guarantee_rows.rows(evidence.gather(runs / "bare"))) == 2  # one example, one client


def test_what_never_changes_is_said_and_not_drawn(runs):
    run = evidence.gather(runs / "digits")
    assert (
        figures.unchanging(run)
        == "The same in every round: sigma is 7, the sensitivity S is 1, the clipping bound C is 1."
    )
    assert [chart.title for chart in figures.noise(run)] == ["Norms of gradients"]
    lines = [replace(line, sigma=7.0 - i) for i, line in enumerate(run.lines)]
    assert [chart.title for chart in figures.noise(replace(run, lines=lines))] == ["Noise scale", "Norms of gradients"]


def test_no_chart_has_raw_markup_for_numbers_and_each_accuracy_has_its_baseline_and_interval(runs):
    run = evidence.gather(runs / "digits")
    charts = [*figures.learning(run, []), *figures.noise(run), *figures.spending(run), *figures.tradeoff([run])]
    assert len(charts) >= 5
    for chart in charts:
        assert "$" not in chart.svg
        assert "mathdefault" not in chart.svg
    low, high = run.result.accuracy_interval
    assert f"(95 % interval {low:.3f} to {high:.3f})" in charts[0].says
    assert ">majority<" in charts[0].svg


def test_three_readings_that_show_the_same_are_shown_once(runs):
    run = evidence.gather(runs / "digits")
    (one,) = [a for a in run.attacks if a.record.surface == 2]
    again = replace(one, record=replace(one.record, surface=1))
    shown = exhibits(replace(run, attacks=[one, again]), truth=True)
    assert [len(exhibit["titles"]) for exhibit in shown] == [2]


def test_an_attack_on_membership_stands_on_the_card_beside_what_the_guarantee_allows(runs, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(runs / "digits", folder)
    asked = ["--surface", "0", "--view", "model", "--attack", "membership", "--victims", "4"]
    assert main(["attack", str(folder), *asked]) == 0
    run = evidence.gather(folder)
    made = card.card(run)
    jsonschema.validate(made, card.schema())
    (found,) = [one["membership"] for one in made["attacks"] if one["membership"]]
    assert (found["reads"], found["members"]) == ("model", 4 * 40)
    strongest = min(g.epsilon for g in run.result.guarantees if g.finite and g.unit == "example")
    for rate in found["rates"]:
        assert rate["allowed"] <= math.exp(strongest) * rate["fpr"] + 1e-5 + 1e-12
    assert all(
        text in card.markdown(made) for text in ("Membership (model), 160 members", "at FPR 1 %", "Guarantee: epsilon")
    )
    assert "160 members" in page([run])


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ("leaks", "recovered part of the data"),
        ("too-few-victims", "too few victims to tell"),
        ("nothing-found", "recovered no more than a guess that reads no gradient"),
    ],
)
def test_a_headline_says_the_verdict_of_the_records(runs, verdict, said):
    run = evidence.gather(runs / "digits")
    attacks = [replace(one, record=replace(one.record, verdict=verdict)) for one in run.attacks]
    shown = replace(run, attacks=attacks)
    assert said in told(shown)
    assert {one["verdict"] for one in card.card(shown)["attacks"]} == {verdict}
    assert f"| {verdict} |" in card.markdown(card.card(shown))
    assert words.badge(attacks[0].record)[0] in page([shown])


def test_true_records_and_the_seed_of_own_data_are_hidden_unless_asked_for(runs):
    run = evidence.gather(runs / "own")
    assert run.own
    first = features(run.attacks[0].exhibit)[0]
    truth = first["true"]
    hidden, shown = page([run]), page([run], show_truth=True)
    assert f"<td>{first['guess']}" not in hidden  # a good copy is as private as the record
    assert "recovered</th>" not in hidden
    assert ">true</th>" not in hidden
    assert ">true</th>" in shown
    assert f"<td>{truth}</td>" in shown
    for text in (hidden, shown, json.dumps(card.card(run)), card.markdown(card.card(run))):
        assert "424242" not in text
        assert str(runs) not in text
    assert main(["report", str(runs / "own"), "--show-truth", "--out", str(runs / "truth.html")]) == 0
    assert (runs / "truth.html").stat().st_mode & 0o077 == 0
    built_in = page([evidence.gather(runs / "table")])
    assert ">true</th>" in built_in


def test_exhibits_are_for_their_owner_alone_and_hold_no_pickle(runs):
    for path in (runs / "own" / "attacks").glob("*.npz"):
        assert path.stat().st_mode & 0o077 == 0
        with np.load(path, allow_pickle=False) as file:
            assert all(file[name].dtype.kind in "fiU" for name in file.files)


def test_an_exhibit_comes_back_as_it_was_saved(runs, tmp_path):
    held = evidence.gather(runs / "table").attacks[0].exhibit
    held.save(tmp_path / "again.npz")
    again = Exhibit.load(tmp_path / "again.npz")
    for name in Exhibit.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(again, name), getattr(held, name))


def test_several_runs_are_compared_method_by_method(runs, capsys):
    assert main(["report", str(runs / "digits"), str(runs / "bare"), "--out", str(runs / "both.html"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    text = (runs / "both.html").read_text()
    assert told["bytes"] == len(text.encode())
    assert "Side by side" in text
    assert "Accuracy against leakage" in text
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", text)
    assert heads.index("fed-cdp (digits)") < heads.index("non-private (bare)")


def test_runs_on_different_data_are_all_named_and_share_no_level(runs):
    digits, bare, table = (evidence.gather(runs / name) for name in ("digits", "bare", "table"))
    assert "<h1>digits / synthetic: fed-cdp / fed-sdp-client</h1>" in page([digits, table])
    same, other = figures.learning(digits, [bare])[0], figures.learning(digits, [table])[0]
    assert ">majority<" in same.svg
    assert ">majority<" not in other.svg
    assert "dashed" not in other.says


@pytest.mark.parametrize("name", ["digits", "bare", "table", "own"])
def test_a_card_satisfies_its_schema_also_before_the_run_is_over(runs, name):
    jsonschema.Draft202012Validator.check_schema(card.schema())
    run = evidence.gather(runs / name)
    for one in (run, replace(run, result=None), replace(run, result=None, lines=[], attacks=[])):
        made = card.card(one)
        jsonschema.validate(made, card.schema())
        json.dumps(made, allow_nan=False)
        assert made["claim"] in card.markdown(made).replace("\\|", "|").replace("&lt;", "<")
    stored = store.read_json(runs / name / card.JSON)
    jsonschema.validate(stored, card.schema())
    assert stored == card.card(run)


def test_the_schema_refuses_a_number_where_none_is_finite(runs):
    made = card.card(evidence.gather(runs / "bare"))
    made["guarantees"][0] |= {"finite": False, "epsilon": 3.0}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(made, card.schema())


def test_a_card_names_what_was_tried_and_what_is_not_covered(runs):
    text = card.markdown(card.card(evidence.gather(runs / "bare")))
    assert "| in local training (released) | map |" in text
    assert "No finite epsilon holds against:" in text
    assert "An attack that fails proves nothing" in text


def test_an_unfinished_run_has_a_page_too(runs):
    run = evidence.gather(runs / "digits")
    text = page([replace(run, result=None, lines=run.lines[:1], attacks=[])])
    assert "after 1 of 3 rounds" in text
    assert "No attack was tried here." in text
    assert "Training has not finished" in text


def test_names_with_markup_are_escaped_on_the_page_and_in_the_card(runs):
    run = evidence.gather(runs / "table")
    nasty = replace(run, plan=replace(run.plan, dataset="<script>alert(1)</script>|x"), folder=run.folder / "<b>|")
    assert "<script>" not in page([nasty, nasty])
    assert "<script>" not in card.markdown(card.card(nasty))


@pytest.mark.parametrize("bad", ["nowhere", "own.csv"])
def test_what_is_no_run_is_refused_in_a_sentence(runs, capsys, bad):
    assert main(["report", str(runs / bad)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_folder_of_runs_stands_for_its_runs(runs):
    assert len(evidence.folders_in(runs)) == 4
    with pytest.raises(BadInput):
        evidence.folders_in(runs / "own" / "attacks")


def test_figures_follow_the_pages_ink_and_are_the_same_each_time():
    line = Line("one", [1, 2, 3], [0.1, None, 0.3])
    one, other = (curves("T", "round", "share", [line], "says") for _ in range(2))
    assert one.svg == other.svg
    assert INK not in one.svg
    assert "currentColor" in one.svg
    assert ">round<" in one.svg
    assert ">share<" in one.svg
    assert not re.search(r'<svg [^>]*width="', one.svg)


def record(gain, verdict):
    nothing = dict.fromkeys(field.name for field in fields(AttackRecord))
    return AttackRecord(**nothing | {"gain": gain, "verdict": verdict, "surface": 2})


def test_the_attack_that_found_a_leak_speaks_for_its_surface(runs):
    held = evidence.gather(runs / "bare")
    unclear, clear = (evidence.AttackEvidence(r, None) for r in (record(0.3, "too-few-victims"), record(0.1, "leaks")))
    assert replace(held, attacks=[unclear, clear]).strongest(2) is clear
