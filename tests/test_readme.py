import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_python_example_runs_and_says_what_it_promises(capsys):
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    assert len(example.strip().splitlines()) <= 15
    exec(compile(example, "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert re.search(r"accuracy 0\.\d\d, majority-class baseline 0\.1", said)
    assert re.search(r"epsilon \d+\.\d\d at delta 1e-05 for one example against the server", said)


def test_both_commands_stand_at_the_top():
    top = README[:1200]
    assert "make demo" in top
    assert "make test" in top


def test_every_page_that_is_named_exists():
    for page in [README, *(p.read_text() for p in (ROOT / "docs").glob("*.md"))]:
        for link in re.findall(r"\]\(([^)#]+)\)", page):
            assert "://" in link or any((base / link).exists() for base in (ROOT, ROOT / "docs")), link


def test_the_changelog_and_the_citation_name_the_version():
    from gradveil import __version__

    newest = re.search(r"^## .*$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE).group(0)
    assert __version__ in newest
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_what_contributors_are_told_is_so():
    told, rooms = (ROOT / "CONTRIBUTING.md").read_text(), (ROOT / "docs" / "architecture.md").read_text()
    calls = re.findall(r"\bin_turn ((?:[a-z-]+ ?)+)", (ROOT / ".ci" / "run").read_text())
    called = {suite for one in calls for suite in one.split()}
    assert len(called) >= 9
    assert all(target in told for target in called)
    for place in re.findall(r"`([a-z_/]+\.py)`", told + rooms):
        ours = [*(ROOT / "src" / "gradveil").rglob(place), *(ROOT / "tests").rglob(Path(place).name)]
        assert ours or (ROOT / place).exists(), place
    for name, place in re.findall(r"`(\w+)` (?:in|of) `([a-z_/]+\.py)`", told + rooms):
        files = [*(ROOT / "src" / "gradveil").rglob(place), *ROOT.glob(place)]
        assert any(re.search(rf"\b{name}\b", file.read_text()) for file in files), (name, place)
    assert "`VERBS` of `cli/verbs.py`" in rooms


def test_the_verbs_without_json_are_named():
    import typer

    from gradveil.cli.main import app

    group = typer.main.get_command(app)
    verbs = {name: group.get_command(None, name) for name in group.list_commands(None)}
    below = {f"{name} {sub}": c for name, v in verbs.items() for sub, c in getattr(v, "commands", {}).items()}
    shown = {n: c for n, c in {**verbs, **below}.items() if not c.hidden and not getattr(c, "commands", None)}
    without = [name for name, c in shown.items() if not any("--json" in p.opts for p in c.params)]
    assert without
    for name in without:
        assert f"`{name}`" in README.split("takes `--json`")[0][-140:], name
