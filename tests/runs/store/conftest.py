"""Small runs to be damaged, killed and gone on with."""

import json
import shutil

import pytest

from gradveil.cli.main import main

SMALL = [
    "run", "--dataset", "synthetic", "--clients", "4", "--cohort", "2", "--client-size", "40", "--batch", "4",
    "--local-steps", "2", "--rounds", "4",
]  # fmt: skip


@pytest.fixture
def ask(capsys):
    """Run a command that must work; its JSON is given."""

    def run(*arguments):
        code = main([*map(str, arguments), "--json"])
        answer = capsys.readouterr()
        assert code == 0, answer.err
        return json.loads(answer.out)

    return run


@pytest.fixture
def refused(capsys):
    """Run a command that must be refused; its one sentence is given."""

    def run(*arguments):
        code = main(list(map(str, arguments)))
        answer = capsys.readouterr()
        assert code == 2, (code, answer)
        assert answer.out == ""
        assert len(answer.err.splitlines()) == 1, answer.err
        return answer.err

    return run


@pytest.fixture(scope="session")
def templates(tmp_path_factory):
    """Make each kind of run folder once; whoever asks gets a copy to spoil."""
    root, made = tmp_path_factory.mktemp("templates"), {}

    def copy(place, *flags):
        if flags not in made:
            made[flags] = root / str(len(made))
            assert main([*SMALL, *map(str, flags), "--json", "--out", str(made[flags])]) == 0
        shutil.copytree(made[flags], place)
        return place

    return copy


@pytest.fixture
def finished(templates, tmp_path, capsys):
    """Give a copy of a finished run of SMALL with some options changed."""

    def make(*flags, name="run"):
        folder = templates(tmp_path / name, *flags)
        capsys.readouterr()
        return folder

    return make
