import os
import stat
from dataclasses import replace

import numpy as np
import pytest

from gradveil.errors import BadInput
from gradveil.models.features import feature_cache
from gradveil.models.features.description import Features, ScatteringBlock, TableBlock
from gradveil.models.features.extract import build, extract
from gradveil.models.features.feature_cache import cached_constants, cached_features, examples_digest
from gradveil.models.features.maps import RandomMap

FEATURES = Features(ScatteringBlock(angles=2, keep=2), map=RandomMap(5))
X = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 1), np.uint8)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADVEIL_CACHE", str(tmp_path))
    return tmp_path / "features"


def file_of(folder):
    return folder / f"{examples_digest(FEATURES, X)}.npz"


def test_features_are_computed_once_and_found_again(folder):
    seen = []
    first = cached_features(FEATURES, X, seen.append)
    assert seen
    np.testing.assert_array_equal(first, extract(FEATURES, X))
    seen.clear()
    np.testing.assert_array_equal(cached_features(FEATURES, X, seen.append), first)
    assert not seen
    assert len(list(folder.iterdir())) == 2


def test_what_was_built_is_kept_as_it_is():
    for features, shape in ((FEATURES, (8, 8, 1)), (Features(table=TableBlock()), (4,))):
        made = build(features, shape)
        for _ in range(2):
            kept = cached_constants(features, shape)
            assert (kept.filters is None) == (made.filters is None)
            assert (kept.matrix is None) == (made.matrix is None)
        if made.matrix is not None:
            np.testing.assert_array_equal(kept.matrix, made.matrix)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text"])
def test_a_damaged_file_is_made_again(folder, damage):
    first = cached_features(FEATURES, X)
    path = file_of(folder)
    content = bytearray(path.read_bytes())
    flipped = content.copy()
    flipped[content.index(first.tobytes()[:8]) + 3] ^= 64  # inside the numbers
    damaged = {"cut": content[: len(content) // 2], "flipped": flipped, "empty": b"", "text": b"features"}
    path.write_bytes(damaged[damage])
    assert cached_features(FEATURES, X).tobytes() == first.tobytes()
    assert np.load(path)["features"].tobytes() == first.tobytes()


def test_another_description_other_examples_or_other_code_is_another_file(monkeypatch):
    digests = {
        examples_digest(FEATURES, X),
        examples_digest(replace(FEATURES, seed=1), X),
        examples_digest(replace(FEATURES, map=RandomMap(6)), X),
        examples_digest(FEATURES, X[::-1]),
        examples_digest(FEATURES, X.astype(np.float32)),
        examples_digest(FEATURES, X.reshape(6, 4, 16, 1)),
    }
    monkeypatch.setattr(feature_cache, "code_digest", lambda: "another version")
    assert len(digests | {examples_digest(FEATURES, X)}) == 7


def test_only_the_owner_may_read_features_of_records(folder):
    cached_features(FEATURES, X)
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_a_write_that_fails_leaves_nothing(folder, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        cached_features(FEATURES, X)
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRADVEIL_CACHE", str(tmp_path / "file"))
    with pytest.raises(BadInput, match=r"cannot be written .*set GRADVEIL_CACHE to another folder"):
        cached_features(FEATURES, X)
