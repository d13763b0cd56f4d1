"""requirements/*.lock pin everything that is installed, with hashes, and fit pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
BUILD = PROJECT["dependency-groups"]["build"]
WANTED = {
    "core": [*PROJECT["project"]["dependencies"], *BUILD],
    "flower": [*PROJECT["project"]["dependencies"], *BUILD, *EXTRAS["flower"]],
    "dev": [*PROJECT["project"]["dependencies"], *BUILD, *EXTRAS["flower"], *EXTRAS["dev"]],
    "docs": [*PROJECT["project"]["dependencies"], *BUILD, *EXTRAS["flower"], *EXTRAS["docs"]],
}


def entries(text):
    """The pins of a lock as (requirement, its hashes)."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for entry in re.split(r"(?<!\\)\n", "\n".join(lines)):
        pin, *hashes = re.split(r"\s*\\?\n?\s*--hash=", entry.replace("\\\n", ""))
        yield Requirement(pin.strip()), [hash_.strip() for hash_ in hashes]


def unlocked(text, wanted, python="3.12"):
    """Name the requirements that a lock does not answer on this platform."""
    here = default_environment() | {"python_version": python, "python_full_version": f"{python}.0"}
    pins = {}
    for pin, _ in entries(text):
        if pin.marker is None or pin.marker.evaluate(here):
            pins[canonicalize_name(pin.name)] = next(iter(pin.specifier)).version
    for requirement in map(Requirement, wanted):
        name = canonicalize_name(requirement.name)
        if name != "gradveil" and (name not in pins or pins[name] not in requirement.specifier):
            yield f"{requirement} has {pins.get(name)}"


def lock(name):
    return (ROOT / "requirements" / f"{name}.lock").read_text()


@pytest.mark.parametrize("name", WANTED)
def test_every_pin_is_exact_and_has_hashes(name):
    found = list(entries(lock(name)))
    assert len(found) > 40
    for pin, hashes in found:
        assert [specifier.operator for specifier in pin.specifier] == ["=="], pin
        assert hashes, pin
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", hash_) for hash_ in hashes), pin


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("name", WANTED)
def test_a_lock_answers_what_the_project_asks_for(name, python):
    assert list(unlocked(lock(name), WANTED[name], python)) == []


def test_smaller_locks_are_parts_of_the_larger_ones():
    def files(name):
        return {(pin.name, str(pin.specifier), hash_) for pin, hashes in entries(lock(name)) for hash_ in hashes}

    assert files("core") < files("flower") < files("dev")
    assert files("flower") < files("docs")


def test_every_supported_python_is_in_the_classifiers():
    told = [line for line in PROJECT["project"]["classifiers"] if "Python :: 3." in line]
    assert [line.rsplit(" ", 1)[1] for line in told] == ["3.11", "3.12", "3.13"]


def test_what_builds_the_wheel_is_locked():
    assert set(PROJECT["build-system"]["requires"]) <= set(BUILD)


def test_a_missing_pin_and_an_old_one_are_seen():
    text = "jax==0.9.0 \\\n    --hash=sha256:00\n"
    assert list(unlocked(text, ["jax>=0.10", "numpy>=2"])) == ["jax>=0.10 has 0.9.0", "numpy>=2 has None"]
    assert list(unlocked(text, ["jax>=0.9"])) == []
