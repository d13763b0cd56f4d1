"""The demonstration tells one story: what leaks, what protection costs, what is guaranteed, and where the page is."""

import json
import os
import pty
import re
import threading
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from types import SimpleNamespace

import pytest

from gradveil.cli.main import main

pytestmark = pytest.mark.slow
QUICK = ["--rounds", "2", "--clients", "6", "--cohort", "6", "--local-steps", "1"]
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(scope="module")
def demo(tmp_path_factory, room):
    """The folder of a short demonstration, what it printed to a pipe, and what it printed to errors."""
    folder = tmp_path_factory.mktemp("demo")
    room(all_of_it=True)
    said, complained = StringIO(), StringIO()
    with in_folder(folder), redirect_stdout(said), redirect_stderr(complained):
        assert main(["run", *QUICK, "--out", "demo"]) == 0, complained.getvalue()
    return SimpleNamespace(folder=folder, stdout=said.getvalue(), stderr=complained.getvalue())


@contextmanager
def in_folder(folder, **variables):
    """Be in a folder and have 80 columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in {"COLUMNS": "80", **variables}.items():
            patch.setenv(name, value)
        patch.delenv("NO_COLOR", raising=False)
        yield


@contextmanager
def terminal():
    """Give the end of a pseudo-terminal to write to, and a list of all that was shown there."""
    leader, follower = pty.openpty()
    shown = []
    reader = threading.Thread(target=lambda: shown.extend(iter(lambda: _read(leader), b"")))
    reader.start()
    yield follower, shown
    os.close(follower)
    reader.join(timeout=60)
    os.close(leader)


def _read(leader):
    try:
        return os.read(leader, 65536)
    except OSError:  # Linux answers so when the last writer has left
        return b""


def on_a_terminal(arguments, folder):
    """Run a command on a pseudo-terminal of 80 columns; gives what it showed."""
    colors = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    with (
        terminal() as (follower, shown),
        open(follower, "w", closefd=False) as end,
        in_folder(folder, **colors),
        redirect_stdout(end),
        redirect_stderr(end),
    ):
        assert main(arguments) == 0
    return b"".join(shown).decode().replace("\r\n", "\n")


def records(folder, method):
    found = (folder / "demo" / method / "attacks").glob("*-2-released-*.json")
    return json.loads(next(found).read_text())


def test_a_pipe_gets_the_story_in_forty_lines_of_eighty_columns_without_a_picture(demo):
    lines = demo.stdout.splitlines()
    assert demo.stderr == ""
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert "\u2580" not in demo.stdout
    assert "\x1b" not in demo.stdout
    headings = [line.split(":")[0] for line in lines if line.startswith(("WHAT", "Report"))]
    assert headings == ["WHAT LEAKS", "WHAT PROTECTION COSTS", headings[2], "Report with all attacks"]
    assert headings[2].startswith("WHAT IS GUARANTEED by fed-cdp (delta 1e-05")
    assert (demo.folder / lines[-1].split(": ")[1]).is_file()


def test_every_rate_is_told_as_k_of_n_from_the_records(demo):
    folder, text = demo.folder, " ".join(demo.stdout.split())
    for method in ("fed-cdp", "fed-alpha-cdp", "non-private"):
        result = json.loads((folder / "demo" / method / "result.json").read_text())
        assert f"{method} {round(result['accuracy'] * result['test_examples'])} of {result['test_examples']}" in text
    bare, protected = (records(folder, method) for method in ("non-private", "fed-cdp"))
    rebuilt = [sum(one["rmse"] <= 0.1 for one in r["per_victim"]) for r in (bare, protected)]
    assert f"{rebuilt[0]} of 6 victims without protection, from the gradient of one record each" in text
    assert f"{rebuilt[1]} of 6 under fed-cdp, which shows the noisy gradient of {protected['batch']} records" in text


def test_a_terminal_gets_the_picture_of_the_first_record_and_of_its_reconstructions(demo):
    again = on_a_terminal(["run", "--resume", "--out", "demo"], demo.folder)
    story = again[again.index("WHAT LEAKS") :]
    rows = [line for line in story.splitlines() if "\u2580" in line]
    assert len(rows) == 8
    assert [STYLE.sub("", line).count("\u2580") for line in rows] == [48] * 8
    assert len(story.splitlines()) <= 40
    assert max(len(STYLE.sub("", line)) for line in story.splitlines()) <= 80
    cells = [re.findall(r"\x1b\[38;2;(\d+);\d+;\d+;48;2;(\d+);\d+;\d+m", line) for line in rows]
    true, bare, protected = ([row[i : i + 16] for row in cells] for i in (0, 16, 32))
    assert _distance(true, bare) < 10  # of 255: what leaks can be recognized
    assert _distance(true, protected) > 40


def _distance(one, other):
    pairs = [(int(a), int(b)) for x, y in zip(one, other, strict=True) for p, q in zip(x, y, strict=True)
             for a, b in zip(p, q, strict=True)]  # fmt: skip
    return (sum((a - b) ** 2 for a, b in pairs) / len(pairs)) ** 0.5


def test_a_terminal_is_told_what_goes_on_before_the_first_round(tmp_path):
    sizes = "--clients 4 --cohort 4 --client-size 40 --batch 4 --local-steps 3 --rounds 3"
    small = ["--dataset", "synthetic", *sizes.split()]
    shown = on_a_terminal(["run", *small, "--out", "r"], tmp_path)
    stages = ["starting JAX", "loading synthetic", "compiling the first round", "3/3", "accuracy", "epsilon"]
    places = [shown.index(stage) for stage in stages]
    assert places[:3] == sorted(places[:3])
