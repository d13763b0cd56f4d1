"""Printing a page to PDF: by a browser that is there, and refused in a sentence where there is none."""

import os
from pathlib import Path

import pytest

from gradveil.cli.main import main
from gradveil.errors import BadInput
from gradveil.reports import pdf

FAKE = """#!/bin/sh
for given in "$@"; do
  case "$given" in --print-to-pdf=*) printf '%%PDF-1.4 made' > "${given#--print-to-pdf=}";; esac
done
"""


@pytest.fixture
def browsers(tmp_path, monkeypatch):
    """A folder that alone is searched for browsers."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}")
    return folder


def install(folder, content):
    program = folder / "chromium"
    program.write_text(content)
    program.chmod(0o755)


def test_without_a_browser_it_is_one_sentence_and_nothing_is_written(attacked_runs, tmp_path, browsers, capsys):
    place = tmp_path / "page.html"
    assert main(["report", str(attacked_runs / "one"), "--pdf", "--out", str(place)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "needs a browser that prints" in told
    assert not place.exists()


def test_a_print_lies_beside_its_page_and_is_as_private(tmp_path, browsers):
    install(browsers, FAKE)
    (tmp_path / "page.html").write_text("<p>page</p>")
    made = pdf.print_page(tmp_path / "page.html", tmp_path / "page.pdf", owner_only=True)
    assert made.read_bytes() == b"%PDF-1.4 made"
    assert made.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\nexit 0\n", "no program"])
def test_a_browser_that_does_not_print_is_one_sentence(tmp_path, browsers, content):
    install(browsers, content)
    (tmp_path / "page.html").write_text("<p>page</p>")
    with pytest.raises(BadInput, match="the browser did not print"):
        pdf.print_page(tmp_path / "page.html", tmp_path / "page.pdf")
    assert not Path(tmp_path / "page.pdf").exists()
    assert os.listdir(tmp_path / "bin") == ["chromium"]
