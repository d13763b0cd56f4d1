"""What a run folder says of a user's own rows: nothing by which a guess could be tested."""

import hashlib
import json
import os

import numpy as np
import pytest

from gradveil import BadInput, dataset
from gradveil.runs import store

OWN = ["run", "--target", "label", "--rounds", "1", "--dataset"]


@pytest.fixture
def own(tmp_path):
    """A table of one's own, and how to write it with another last row."""

    def write(last="yes"):
        rows = [
            f"{a:.3f},{b:.3f},{'yes' if a > 0 else 'no'}" for a, b in np.random.default_rng(0).normal(size=(200, 2))
        ]
        (tmp_path / "own.csv").write_text("\n".join(["a,b,label", *rows[:-1], f"0.5,0.5,{last}"]))
        return tmp_path / "own.csv"

    return write


def plain_digests(data):
    """Give every plain digest of the rows that somebody who guesses them could compute, written anew here."""
    running = hashlib.sha256()
    for split in (data.train, data.validation, data.test):
        for array in (split.x, split.y) if split is not None else ():
            running.update(str((array.dtype.str, array.shape)).encode() + array.tobytes())
    return {running.hexdigest(), hashlib.sha256(data.train.x.tobytes()).hexdigest(), data.digest()}


def test_no_file_of_a_run_on_own_data_holds_a_plain_digest_of_the_rows(own, ask, tmp_path):
    ask(*OWN, own(), "--out", tmp_path / "run")
    guessed = plain_digests(dataset(str(own()), target="label"))
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(files) > 8
    for path in files:
        assert not any(digest.encode() in path.read_bytes() for digest in guessed), path
    assert json.loads((tmp_path / "run" / "privacy_card.json").read_text())["run"]["data_sha256"] is None
    keyed = store.read_data(tmp_path / "run").keyed_digest
    shown = [path.name for path in files if keyed.encode() in path.read_bytes()]
    assert shown == ["data.json"]


def test_the_key_is_its_owners_and_differs_from_run_to_run(own, ask, tmp_path):
    for name in ("a", "b"):
        ask(*OWN, own(), "--out", tmp_path / name)
        assert (tmp_path / name / ".data-key").stat().st_mode & 0o077 == 0
    assert len({store.read_data(tmp_path / name).keyed_digest for name in ("a", "b")}) == 2


def test_going_on_still_notices_other_rows_and_a_lost_key(own, ask, refused, tmp_path):
    out = tmp_path / "run"
    ask(*OWN, own(), "--out", out)
    ask("run", "--resume", "--out", out)
    own("no")
    assert "other data" in refused("run", "--resume", "--out", out)
    own()
    (out / ".data-key").write_bytes(os.urandom(32))
    assert "other data" in refused("run", "--resume", "--out", out)
    (out / ".data-key").unlink()
    assert ".data-key" in refused("run", "--resume", "--out", out)


def test_built_in_data_keep_a_plain_digest(finished):
    out = finished()
    assert store.read_data(out).sha256 == dataset("synthetic").digest()
    assert not (out / ".data-key").exists()
    with pytest.raises(BadInput):
        store.read_data(out / "missing")
