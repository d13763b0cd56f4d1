"""What a user gets who installs gradveil without its repository: the wheel, in an environment of its own."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = [pytest.mark.packaging, pytest.mark.slow, pytest.mark.timeout(1800)]  # downloads 250 MB
ROOT = Path(__file__).parents[1]
OF_THIS_CHECKOUT = ("PYTHON", "PIP_CONSTRAINT", "PIP_REQUIRE_VIRTUALENV", "VIRTUAL_ENV", "GRADVEIL_", "XDG_", "JAX_")


def call(command, home, cwd, seconds=900):
    """Run a command with an empty home and empty caches, and nothing of this checkout in its environment."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith(OF_THIS_CHECKOUT)}
    env = outside | {"HOME": str(home), "PIP_CACHE_DIR": str(home / "pip"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, env=env, cwd=cwd, text=True, capture_output=True, timeout=seconds, check=False)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel as a build frontend makes it: in isolation, with the newest hatchling."""
    there = tmp_path_factory.mktemp("dist")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", there, ROOT]
    built = call(pip, tmp_path_factory.mktemp("builder"), there)
    assert built.returncode == 0, built.stderr
    (made,) = there.glob("*.whl")
    return made


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    """A clean environment with the wheel and whatever versions the index gives for what it asks for."""
    there, home = tmp_path_factory.mktemp("environment"), tmp_path_factory.mktemp("home")
    made = call([sys.executable, "-m", "venv", there / "venv"], home, there)
    assert made.returncode == 0, made.stderr
    python = there / "venv" / "bin" / "python"
    got = call([python, "-m", "pip", "install", "--quiet", wheel], home, there)
    assert got.returncode == 0, got.stderr

    def gradveil(*arguments, seconds=300):
        return call([there / "venv" / "bin" / "gradveil", *arguments], home, there, seconds)

    return SimpleNamespace(gradveil=gradveil, python=python, home=home, folder=there)


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src/gradveil"],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=True,
    ).stdout.splitlines()
    ours = {name.removeprefix("src/") for name in listed if (ROOT / name).exists()}
    assert ours
    assert {name for name in names if ".dist-info/" not in name} == ours
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_it_says_its_version(installed):
    from gradveil import __version__

    said = installed.gradveil("--version")
    assert (said.returncode, said.stdout.split()) == (0, ["gradveil", __version__])


def test_it_is_the_wheel_that_runs(installed):
    code = "import gradveil, json; print(gradveil.__file__)"
    where = call([installed.python, "-c", code], installed.home, installed.folder).stdout.strip()
    assert Path(where).is_relative_to(installed.folder / "venv")


def test_a_run_from_the_wheel_trains_and_reports(installed):
    out = installed.folder / "run"
    wanted = ["--dataset", "digits", "--method", "fed-cdp", "--rounds", "1", "--cohort", "2", "--local-steps", "2"]
    ran = installed.gradveil("run", *wanted, "--no-attack", "--out", str(out), seconds=600)
    assert ran.returncode == 0, ran.stderr
    result = json.loads((out / "result.json").read_text())
    assert result["rounds"] == 1
    assert "<html" in (out / "report.html").read_text()


def test_an_attack_from_the_wheel_recovers_unprotected_digits(installed):
    wanted = ["--dataset", "digits", "--surface", "2", "--network", "mlp", "--attack", "analytic", "--victims", "2"]
    ran = installed.gradveil("attack", *wanted, "--json", seconds=600)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["success_rate"] == 1.0


def test_what_needs_the_checkout_says_so_in_one_sentence(installed):
    ran = installed.gradveil("bench")
    assert ran.returncode == 2
    assert ran.stdout == ""
    (sentence,) = ran.stderr.strip().splitlines()
    assert re.search(r"bench: needs a checkout of gradveil's repository", sentence)


def test_what_needs_flower_says_how_to_get_it(installed):
    ran = installed.gradveil("federate", "demo")
    assert ran.returncode == 2
    assert "gradveil[flower]" in ran.stderr
    assert "Traceback" not in ran.stderr
