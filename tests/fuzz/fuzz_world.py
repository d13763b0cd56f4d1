"""The files that generated inputs point at: small data of every kind, finished runs, and things that are no data."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradveil.cli.main import main

TINY = {
    "--dataset": "synthetic", "--clients": "4", "--cohort": "2", "--client-size": "20", "--batch": "2",
    "--local-steps": "1", "--rounds": "2", "--sampling": "fixed-pass", "--partition": "iid",
}  # fmt: skip


@dataclass(frozen=True)
class World:
    """A folder with finished runs in `seeded` and `secret`, and the paths that inputs may name."""

    folder: Path
    seeded: Path
    secret: Path
    data: tuple[str, ...]
    odd: tuple[str, ...]


def build(folder: Path) -> World:
    """Make the files, and train two runs of two rounds."""
    for name, options in {"seeded": ["--method", "fed-cdp"], "secret": ["--noise-source", "secret"]}.items():
        words = [word for pair in TINY.items() for word in pair]
        code = main(["run", *words, *options, "--watch", "0,1", "--attack", "--out", str(folder / name), "--json"])
        assert code == 0, f"the run {name!r} that inputs are built on ended with {code}"
    return World(folder, folder / "seeded", folder / "secret", tuple(_data(folder)), tuple(_odd(folder)))


def _data(folder: Path) -> list[str]:
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 3))
    rows = [f"{a:.3f},{b:.3f},{c:.3f},{'yes' if a > 0 else 'no'}" for a, b, c in x]
    (folder / "own.csv").write_text("\n".join(["a,b,c,label", *rows]))
    np.savez(folder / "own.npz", x=x.astype(np.float32), y=(x[:, 0] > 0).astype(np.int32))
    np.savez(folder / "huge-values.npz", x=np.full((60, 3), 1e30, np.float32), y=np.arange(60) % 2)
    (folder / "header-only.csv").write_text("a,b,label\n")
    (folder / "broken.npz").write_bytes((folder / "own.npz").read_bytes()[:200])
    names = ("own.csv", "own.npz", "huge-values.npz", "header-only.csv", "broken.npz")
    return [str(folder / name) for name in names]


def _odd(folder: Path) -> list[str]:
    (folder / "empty").write_bytes(b"")
    (folder / "bytes.toml").write_bytes(bytes(range(256)) * 4)
    (folder / "a-folder").mkdir()
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "pipe.csv")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "locked").mkdir(mode=0o500)
    names = ("empty", "bytes.toml", "a-folder", "pipe", "pipe.csv", "loop", "locked/new", "missing", "empty/below")
    elsewhere = ("", "\x00", "a\x00b", "n" * 300, "d/" * 3000, "/dev/null/x",
                 "/proc/nothing/x", "~nobody-of-this-name/x", "\udcff", "ü☃.csv", "-", ".", "..")  # fmt: skip
    return [str(folder / name) for name in names] + list(elsewhere)
