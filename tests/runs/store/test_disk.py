"""Disks that are full, paths that cannot be: one sentence, exit code 2, and nothing half-written."""

import resource
import signal
import subprocess
import sys
from dataclasses import fields

import pytest

import gradveil
from gradveil.runs import store
from gradveil.runs.run_records import RoundLine

SMALL = ["run", "--dataset", "synthetic", "--rounds", "3", "--local-steps", "2"]


@pytest.fixture
def small_disk():
    """Let this process write no file beyond some bytes, as on a full disk."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_file_that_does_not_fit_leaves_the_old_one_and_nothing_else(tmp_path, small_disk):
    store.write(tmp_path / "a", b"old")
    small_disk(100)
    with pytest.raises(gradveil.BadInput, match=r"a': cannot be written \(File too large\)"):
        store.write(tmp_path / "a", bytes(1000))
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a", b"old")]


def test_a_line_that_does_not_fit_is_taken_away_again(tmp_path, small_disk):
    first, second = (
        RoundLine(**dict.fromkeys(field.name for field in fields(RoundLine)) | {"round": t}) for t in (0, 1)
    )
    store.append_metrics(tmp_path, first)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    small_disk(len(before) + 5)
    with pytest.raises(gradveil.BadInput, match=r"metrics\.jsonl"):
        store.append_metrics(tmp_path, second)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


LIMITED = """
import resource, sys
from gradveil.cli.main import main
from gradveil.engines import vectorized
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("most", [100, 3000], ids=["nothing fits", "the checkpoint does not fit"])
def test_a_full_disk_is_a_sentence_and_the_run_goes_on_when_there_is_room(tmp_path, ask, most):
    out = tmp_path / "run"
    arguments = [str(most), *SMALL, "--no-attack", "--out", str(out)]
    ended = subprocess.run([sys.executable, "-c", LIMITED, *arguments], capture_output=True, text=True, timeout=300)
    sentences = [line for line in ended.stderr.splitlines() if line.startswith("gradveil: ")]
    assert (ended.returncode, len(sentences)) == (2, 1), ended.stderr
    assert "cannot be written (File too large)" in sentences[0]
    assert "Traceback" not in ended.stderr
    assert not list(tmp_path.rglob(".*.partial"))
    if most > 1000:
        assert ask("run", "--resume", "--out", out)["rounds"] == 3
    else:
        assert list(tmp_path.iterdir()) == []


def test_paths_that_cannot_be_written_are_a_sentence(tmp_path, refused):
    (tmp_path / "file").write_text("mine")
    for out in (
        tmp_path / "file" / "run",
        tmp_path / ("x" * 300),
        tmp_path / ("x" * 250),
        "/proc/run",
        "/dev/null/run",
    ):
        assert "cannot be" in refused(*SMALL, "--out", out)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_folder_that_one_stands_in_can_be_named(tmp_path, refused, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").touch()
    assert "not a run folder" in refused(*SMALL, "--out", ".")


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "file/run"])
def test_python_gives_bad_input_for_paths_that_cannot_be(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(gradveil.BadInput, match=r"cannot be|a path is expected"):
        gradveil.train(gradveil.plan("synthetic", rounds=1), tmp_path / name)
    with pytest.raises(gradveil.BadInput):
        gradveil.load(tmp_path / name)
