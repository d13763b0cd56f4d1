"""Devices, pipes and sockets where a file is expected: never replaced, never waited for."""

import os
import shutil
import socket
import stat
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest

import gradveil
from gradveil.runs import store
from gradveil.runs.run_records import RoundLine

PRIVATE = ["--method", "fed-cdp", "--sigma", "2", "--cohort", "4", "--rounds", "3", "--watch", "1"]
KINDS = ["pipe", "socket", *(["device"] if os.geteuid() == 0 else [])]


def put(path, kind):
    """Make a special file; the device is a second node of the one that swallows everything."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    else:
        with socket.socket(socket.AF_UNIX) as made:  # its name must be short, so it is bound from within the folder
            before = os.getcwd()
            os.chdir(path.parent)
            try:
                made.bind(path.name)
            finally:
                os.chdir(before)


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_device_a_pipe_and_a_socket_are_not_replaced_by_a_report(finished, refused, tmp_path, kind, linked):
    folder, target = finished(*PRIVATE), tmp_path / "special"
    put(target, kind)
    before, out = target.lstat(), tmp_path / "link" if linked else target
    if linked:
        out.symlink_to(target)
    assert str(out) in refused("report", folder, "--out", out)
    assert (target.lstat().st_mode, target.lstat().st_ino) == (before.st_mode, before.st_ino)
    assert out.is_symlink() == linked


def test_a_report_goes_to_a_link_that_leads_to_a_file_or_nowhere(finished, ask, tmp_path):
    folder = finished(*PRIVATE)
    (tmp_path / "file").write_text("old")
    for name in ("file", "missing"):
        (tmp_path / f"to-{name}").symlink_to(tmp_path / name)
        ask("report", folder, "--out", tmp_path / f"to-{name}")
        assert (tmp_path / f"to-{name}").stat().st_size > 1000


NAMES = [
    "plan.toml", "plans.json", "data.json", "metrics.jsonl", "watch.json", "environment.json", "checkpoints/latest.npz",
    ".lock", "result.json", "params.npz",
]  # fmt: skip
READERS = """
import sys
import gradveil
from gradveil.cli.main import main
for folder in sys.argv[1:]:
    codes = [main(["report", folder, "--out", folder + ".html"]), main(["run", "--resume", "--out", folder])]
    try:
        gradveil.load(folder)
    except gradveil.BadInput:
        codes.append(2)
    print("codes", *codes, flush=True)
"""


@pytest.mark.slow
def test_a_pipe_in_place_of_a_file_of_a_run_is_refused_without_waiting(finished, tmp_path):
    """The readers are a process of their own, since one that waits at a pipe never ends."""
    folders = [finished(*PRIVATE, name=f"run-{i}") for i in range(len(NAMES))]
    for folder, name in zip(folders, NAMES, strict=True):
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
    command = [sys.executable, "-c", READERS, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    found = [set(line.split()[1:]) for line in done.stdout.splitlines() if line.startswith("codes")]
    assert len(found) == len(NAMES), done.stderr
    for name, codes in zip(NAMES, found, strict=True):
        assert "2" in codes, (name, done.stderr)
        assert codes <= {"0", "2"}, (name, done.stderr)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("linked", [False, True])
def test_a_special_file_is_not_read_and_nothing_is_added_to_it(tmp_path, kind, linked):
    path = tmp_path / "special"
    put(path, kind)
    if linked:
        path = tmp_path / "link"
        path.symlink_to(tmp_path / "special")
    for reader in (store.read_json, store.read_toml, store.read_npz):
        with pytest.raises(gradveil.BadInput, match="regular file"):
            reader(path)
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.move(path, folder / "metrics.jsonl") if not linked else (folder / "metrics.jsonl").symlink_to(path)
    with pytest.raises(gradveil.BadInput, match="regular file"):
        store.append_metrics(folder, RoundLine(**dict.fromkeys(field.name for field in fields(RoundLine))))
    with pytest.raises(gradveil.BadInput, match="regular file"):
        store.write(folder / "metrics.jsonl", np.zeros(1).tobytes())


def test_a_lock_that_is_a_pipe_is_refused_and_held_by_nobody(tmp_path):
    os.mkfifo(tmp_path / ".lock")
    keep = os.open(tmp_path / ".lock", os.O_RDWR)  # with both ends open nothing waits, and the test can fail
    try:
        assert not store.is_locked(tmp_path)
        with pytest.raises(gradveil.BadInput, match="regular file"), store.locked(tmp_path):
            pass
    finally:
        os.close(keep)
