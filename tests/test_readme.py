import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_python_example_runs_and_says_what_it_promises(capsys):
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    assert len(example.strip().splitlines()) <= 15
    exec(compile(example, "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert re.search(r"accuracy 0\.\d\d, always the same answer 0\.1", said)
    assert re.search(r"epsilon \d+\.\d\d at delta 1e-05 for one example against the server", said)


def test_both_commands_stand_at_the_top():
    top = README[:1200]
    assert "make demo" in top
    assert "make test" in top


def test_every_page_that_is_named_exists():
    for page in [README, *(p.read_text() for p in (ROOT / "docs").glob("*.md"))]:
        for link in re.findall(r"\]\(([^)#]+)\)", page):
            assert "://" in link or any((base / link).exists() for base in (ROOT, ROOT / "docs")), link


def test_the_changelog_names_the_version():
    from gradveil import __version__

    assert __version__ in (ROOT / "CHANGELOG.md").read_text()
