"""Tests lie where what they test lies: every folder of tests is a room of the package or a suite across rooms."""

from pathlib import Path

import pytest

import gradveil

ROOT = Path(gradveil.__file__).parent
TESTS = Path(__file__).parent
ACROSS = {"laws", "oracles", "golden", "fuzz", "quick"}


def strangers(folders, rooms):
    """Give the folders below tests that are neither a room nor a suite across rooms."""
    return sorted(set(folders) - set(rooms) - ACROSS)


def with_python(root):
    """Give the folders below a root that hold Python files, themselves or in a folder of theirs."""
    files = (path.relative_to(root).parent for path in root.rglob("*.py"))
    return {folder.as_posix() for file in files for folder in (file, *file.parents)} - {"."}


def test_every_folder_of_tests_is_a_room_or_a_suite_across_rooms():
    assert strangers(with_python(TESTS), with_python(ROOT)) == []


@pytest.mark.parametrize("folder", ["experiments", "engines/flour", "laws/old", "privacy/clips"])
def test_a_folder_that_mirrors_nothing_is_seen(folder):
    assert strangers({"laws", "engines", "runs/store", folder}, with_python(ROOT)) == [folder]
