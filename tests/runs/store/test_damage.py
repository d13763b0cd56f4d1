"""Damaged folders: whatever is cut, flipped, emptied or replaced, there is one sentence, and no other epsilon."""

import json
import shutil

import numpy as np
import pytest

import gradveil
from gradveil.cli.main import main
from gradveil.runs import runner, store
from gradveil.runs.runner import Options

pytestmark = pytest.mark.slow
PRIVATE = ["--method", "fed-cdp", "--sigma", "2", "--cohort", "4", "--rounds", "3"]
EACH = 50


@pytest.fixture(scope="module")
def whole(templates, tmp_path_factory):
    """A finished run that was attacked and extended, and an interrupted one, both with a watched round."""
    root = tmp_path_factory.mktemp("whole")
    templates(root / "finished", *PRIVATE, "--attack", "--watch", "1")
    assert main(["run", "--resume", "--rounds", "4", "--json", "--out", str(root / "finished")]) == 0
    plan = store.read_plan(root / "finished")
    begun = runner.prepare(plan, gradveil.dataset("synthetic"), root / "interrupted", Options(watch=frozenset({1})))
    training = runner.proceed(begun)
    for _ in range(2):
        next(training)
    training.close()
    shutil.copytree(root / "interrupted", root / "ended")
    assert main(["run", "--resume", "--json", "--out", str(root / "ended")]) == 0
    return root


def digit(content, random):
    """Change one digit to another."""
    places = [i for i, byte in enumerate(content) if chr(byte).isdigit()]
    if not places:
        return content + b"0"
    at = places[random.integers(len(places))]
    return content[:at] + bytes([48 + (content[at] - 48 + int(random.integers(1, 10))) % 10]) + content[at + 1 :]


def flip(content, random):
    if not content:
        return b"\0"
    at = int(random.integers(len(content)))
    return content[:at] + bytes([content[at] ^ (1 << int(random.integers(8)))]) + content[at + 1 :]


REWRITES = {
    "truncate": lambda content, random: content[: int(random.integers(len(content) + 1))],
    "flip": flip,
    "digit": digit,
    "zeros": lambda content, random: bytes(len(content)),
    "empty": lambda content, random: b"",
    "object": lambda content, random: b"{}",
    "list": lambda content, random: b"[]\n",
    "noise": lambda content, random: random.bytes(len(content)),
}


def damage(path, how, random):
    if how in REWRITES:
        return path.write_bytes(REWRITES[how](path.read_bytes(), random))
    path.unlink()
    return path.mkdir() if how == "folder" else None


def epsilons(held):
    return [(g["threat_model"], g["epsilon"]) for g in held]


def asked(verb, folder, out):
    """Ask one question of a folder; gives the guarantees that are believed, None if it is refused or promises none."""
    if verb == "load":
        try:
            return gradveil.load(folder).result.plain()["guarantees"]
        except gradveil.BadInput:
            return None
    commands = {
        "resume": ["run", "--resume", "--no-attack", "--json", "--out", str(folder)],
        "report": ["report", str(folder), "--json", "--out", str(out / "page.html")],
        "attack": ["attack", str(folder), "--attack", "analytic", "--surface", "2", "--victims", "1", "--json"],
    }
    code = main(commands[verb])
    assert code in (0, 1, 2)
    if code or verb == "attack":
        return None
    card = json.loads((folder / "privacy_card.json").read_text())
    return card["guarantees"] if card["finished"] else None


@pytest.mark.parametrize("kind", ["finished", "interrupted"])
def test_damaged_files_are_refused_in_a_sentence_or_change_no_guarantee(whole, kind, tmp_path, capsys):
    true = epsilons(store.read_json(whole / ("ended" if kind == "interrupted" else kind) / "result.json")["guarantees"])
    names = sorted(str(p.relative_to(whole / kind)) for p in (whole / kind).rglob("*") if p.is_file())
    verbs = ("resume", "report", "attack", "load") if kind == "finished" else ("resume", "report", "attack")
    random, refused = np.random.default_rng(14), 0
    for i in range(EACH):
        name, how = names[i % len(names)], str(random.choice([*REWRITES, "delete", "folder"]))
        verb, folder = verbs[int(random.integers(len(verbs)))], tmp_path / str(i)
        shutil.copytree(whole / kind, folder)
        damage(folder / name, how, random)
        told = f"{how} of {name}, then {verb}"
        capsys.readouterr()
        try:
            held = asked(verb, folder, tmp_path)
        except Exception as error:
            raise AssertionError(f"{told}: {error!r}") from error
        said = capsys.readouterr().err
        sentences = [line for line in said.splitlines() if line.startswith("gradveil: ")]
        assert "Traceback" not in said, told
        assert "interrupted" not in " ".join(sentences).removeprefix(str(tmp_path)).replace(str(folder), ""), told
        assert held is None or epsilons(held) == true, told
        refused += held is None
        shutil.rmtree(folder)
    assert EACH // 4 < refused < EACH, "some damage must be refused, and some must be harmless"


def test_an_undamaged_folder_is_accepted_by_every_verb(whole, tmp_path, capsys):
    shutil.copytree(whole / "finished", tmp_path / "run")
    for verb in ("attack", "report", "load", "resume"):
        held = asked(verb, tmp_path / "run", tmp_path)
        assert (held is None) == (verb == "attack"), capsys.readouterr().err


@pytest.mark.parametrize("name", ["checkpoints/latest.npz", "result.json", "data.json", "metrics.jsonl", "plan.toml"])
@pytest.mark.parametrize("how", ["empty", "folder", "list", "zeros"])
def test_the_files_that_a_run_needs_are_never_believed_when_empty_or_foreign(whole, tmp_path, refused, name, how):
    shutil.copytree(whole / "finished", tmp_path / "run")
    damage(tmp_path / "run" / name, how, np.random.default_rng(0))
    assert "interrupted" not in refused("report", tmp_path / "run")
    if name != "result.json" or how == "folder":
        assert "interrupted" not in refused("run", "--resume", "--out", tmp_path / "run")
    with pytest.raises(gradveil.BadInput):
        gradveil.load(tmp_path / "run")


def test_an_epsilon_edited_in_the_result_is_refused_and_made_again_by_resume(whole, tmp_path, refused, ask):
    folder = tmp_path / "run"
    shutil.copytree(whole / "finished", folder)
    before = json.loads((folder / "result.json").read_text())
    for held in before["guarantees"]:
        changed = json.loads(json.dumps(before))
        next(g for g in changed["guarantees"] if g["threat_model"] == held["threat_model"])["epsilon"] = 0.01
        (folder / "result.json").write_text(json.dumps(changed))
        assert "result.json" in refused("report", folder)
        with pytest.raises(gradveil.BadInput, match=r"result\.json"):
            gradveil.load(folder)
    assert epsilons(ask("run", "--resume", "--out", folder)["guarantees"]) == epsilons(before["guarantees"])


def test_an_edited_attack_is_not_shown(whole, tmp_path, refused):
    shutil.copytree(whole / "finished", tmp_path / "run")
    path = sorted((tmp_path / "run" / "attacks").glob("*.json"))[0]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"gain": -1.0}))
    assert path.name in refused("report", tmp_path / "run")


def test_nested_and_foreign_json_is_refused(whole, tmp_path, refused):
    for name in ("result.json", "data.json", "environment.json", "watch.json", "plans.json"):
        for i, text in enumerate(("[" * 100_000, '{"rounds": ["x"], "seal": 1}', "9" * 5000, '"text"', "\udcff")):
            folder = tmp_path / f"{name}-{i}"
            shutil.copytree(whole / "finished", folder)
            (folder / name).write_bytes(text.encode(errors="surrogateescape"))
            if name == "watch.json":  # nobody but training reads it
                assert name in refused("run", "--resume", "--out", folder)
            else:
                assert name in refused("report", folder)
            shutil.rmtree(folder)
