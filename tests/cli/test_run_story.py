"""The demonstration tells one story: what leaks, what protection costs, what is guaranteed, and where the page is."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest

QUICK = ["--rounds", "2", "--clients", "6", "--cohort", "6"]
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder of a short demonstration, what it printed to a pipe, and what it printed to errors."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "gradveil", "run", *QUICK, "--out", "demo"]
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return folder, done


def on_a_terminal(command, folder):
    """Run a command on a pseudo-terminal of 80 columns; gives what it showed."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=follower, stderr=follower)
    os.close(follower)
    shown = b""
    while chunk := _read(leader):
        shown += chunk
    os.close(leader)
    assert process.wait(timeout=60) == 0, shown.decode()
    return shown.decode().replace("\r\n", "\n")


def _read(leader):
    try:
        return os.read(leader, 65536)
    except OSError:  # Linux answers so when the last writer has left
        return b""


def records(folder, method):
    found = (folder / "demo" / method / "attacks").glob("*-2-released-*.json")
    return json.loads(next(found).read_text())


def test_a_pipe_gets_the_story_in_forty_lines_of_eighty_columns_without_a_picture(demo):
    folder, done = demo
    lines = done.stdout.splitlines()
    assert done.stderr == ""
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert "\u2580" not in done.stdout
    assert "\x1b" not in done.stdout
    headings = [line.split(":")[0] for line in lines if line.startswith(("WHAT", "Report"))]
    assert headings == ["WHAT LEAKS", "WHAT PROTECTION COSTS", headings[2], "Report with all attacks"]
    assert headings[2].startswith("WHAT IS GUARANTEED by fed-cdp (delta 1e-05")
    assert (folder / lines[-1].split(": ")[1]).is_file()


def test_every_rate_is_told_as_k_of_n_from_the_records(demo):
    folder, done = demo
    text = " ".join(done.stdout.split())
    for method in ("fed-cdp", "fed-alpha-cdp", "non-private"):
        result = json.loads((folder / "demo" / method / "result.json").read_text())
        assert f"{method} {round(result['accuracy'] * result['test_examples'])} of {result['test_examples']}" in text
    bare, protected = (records(folder, method) for method in ("non-private", "fed-cdp"))
    rebuilt = [sum(one["rmse"] <= 0.1 for one in r["per_victim"]) for r in (bare, protected)]
    assert f"{rebuilt[0]} of 6 victims without protection, from the gradient of one record each" in text
    assert f"{rebuilt[1]} of 6 under fed-cdp, which shows the noisy gradient of {protected['batch']} records" in text


def test_a_terminal_gets_the_picture_of_the_first_record_and_of_its_reconstructions(demo):
    folder, _ = demo
    again = on_a_terminal([sys.executable, "-m", "gradveil", "run", "--resume", "--out", "demo"], folder)
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
    shown = on_a_terminal([sys.executable, "-m", "gradveil", "run", *small, "--out", "r"], tmp_path)
    stages = ["starting JAX", "loading synthetic", "compiling the first round", "3/3", "accuracy", "epsilon"]
    places = [shown.index(stage) for stage in stages]
    assert places[:3] == sorted(places[:3])
