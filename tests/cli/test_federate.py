"""`gradveil federate` from the command line, as far as it goes without starting anything."""

import json
import os
import stat

import pytest

from gradveil.cli.main import main
from gradveil.deployment import policy as policies
from gradveil.runs import store

PLAN = 'dataset = "synthetic"\nmethod = "fed-cdp"\nclients = 9\ncohort = 6\nrounds = 2\nclient_size = 20\nbatch = 4\n'


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(here, capsys):
    """A run that was laid out and not started; gives a way to go on with it."""
    (here / "plan.toml").write_text(PLAN)
    assert main(["federate", "keys", "keys", "--nodes", "north,east"]) == 0
    given = ["--nodes", "north,east", "--out", "run", "--show"]
    assert main(["federate", "server", "plan.toml", *given]) == 0, capsys.readouterr().err

    def resume(*options):
        capsys.readouterr()
        code = main(["federate", "server", "--resume", "--out", "run", "--show", *options])
        return code, capsys.readouterr()

    return resume


def settings(here):
    return json.loads((here / "run" / "federation.json").read_text())


CHANGES = {
    "--deadline": ("deadline", "33", 33.0),
    "--patience": ("patience", "44", 44.0),
    "--attempts": ("attempts", "5", 5),
    "--max-update-norm": ("max_update_norm", "7.5", 7.5),
}


@pytest.mark.parametrize("option", CHANGES)
def test_what_is_given_beside_resume_is_honoured_and_the_rest_stays(run, here, option):
    name, text, value = CHANGES[option]
    before = settings(here)
    code, _ = run(option, text)
    assert code == 0
    assert settings(here) == before | {name: value}


def test_resume_with_another_port_listens_there(run):
    code, said = run("--port", "8123")
    assert code == 0
    assert said.out.count("--port 8123") == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("plan.toml",), "plan = 'plan.toml': --resume continues the plan of 'run'"),
        (("--nodes", "north,west"), "nodes = 'north,west': --resume continues with north,east"),
        (("--nodes", "east,north"), "nodes = 'east,north'"),
        (("--deadline", "0"), "deadline = 0.0"),
    ],
)
def test_what_cannot_be_honoured_beside_resume_is_refused_by_name(run, here, options, said):
    before = settings(here)
    code, told = run(*options)
    assert code == 2
    assert said in told.err
    assert settings(here) == before


def test_the_same_nodes_may_be_named_again(run):
    assert run("--nodes", "north,east")[0] == 0


def node(*options):
    return main(["federate", "node", "--data", "digits", "--shard", "0/2", "--server", "localhost:1",
                 "--key", "keys/north.key", "--ca", "keys/ca.crt", "--show", *options])  # fmt: skip


def test_no_node_starts_without_a_policy_and_it_is_told_where_to_get_one(run, capsys):
    assert node() == 2
    said = capsys.readouterr().err
    assert "policy" in said
    assert "`gradveil federate policy`" in said
    assert said.count("\n") == 1


def test_a_node_whose_policy_sets_no_limit_does_not_start(run, here, capsys):
    (here / "policy.toml").write_text("allow_seeded = true\n")
    assert node("--policy", "policy.toml") == 2
    assert "maximum_epsilon is missing" in capsys.readouterr().err
    assert node("--policy", "none.toml") == 2
    assert "policy = 'none.toml': does not exist" in capsys.readouterr().err
    assert not (here / "node-state").exists()


def test_a_strict_policy_is_written_for_its_owner_and_read_back(run, here, capsys):
    assert main(["federate", "policy", "--out", "policy.toml"]) == 0
    assert policies.read(here / "policy.toml") == policies.STRICT
    assert stat.S_IMODE((here / "policy.toml").stat().st_mode) == 0o600
    assert node("--policy", "policy.toml") == 0
    capsys.readouterr()
    assert main(["federate", "policy", "--out", "policy.toml"]) == 2
    assert "exists already" in capsys.readouterr().err


def test_the_strict_policy_refuses_what_hides_nothing():
    assert policies.STRICT.methods == ("fed-cdp", "fed-sdp-client")
    assert policies.STRICT.minimum_sigma >= 1
    assert 0 < policies.STRICT.maximum_epsilon <= 8
    assert not policies.STRICT.allow_seeded
    assert not policies.STRICT.allow_no_guarantee


def test_a_policy_is_printed_as_it_was_asked_for(here, capsys):
    assert main(["federate", "policy", "--methods", "fed-cdp", "--maximum-epsilon", "2", "--minimum-sigma", "4"]) == 0
    (here / "p.toml").write_text(capsys.readouterr().out)
    read = policies.read(here / "p.toml")
    assert (read.methods, read.maximum_epsilon, read.minimum_sigma) == (("fed-cdp",), 2.0, 4.0)
    for options in (("--methods", "sdp"), ("--maximum-epsilon", "nan"), ("--maximum-rounds", "0")):
        assert main(["federate", "policy", *options]) == 2


@pytest.mark.parametrize("method", ["non-private", "fed-sdp", "fed-alpha-cdp"])
def test_the_demonstration_does_not_start_what_its_nodes_would_refuse(here, capsys, method):
    assert main(["federate", "demo", "--method", method, "--out", "run"]) == 2
    assert "policy of the demonstration's nodes forbids it" in capsys.readouterr().err
    assert not (here / "run").exists()


def test_all_that_was_written_so_far_is_readable_by_its_owner_alone(run, here):
    before = os.umask(0)
    os.umask(before)
    assert before & 0o077 != 0o077, "the test needs a mask that lets others read"
    assert node("--policy", "policy.toml") == 2
    main(["federate", "policy", "--out", "policy.toml"])
    assert node("--policy", "policy.toml") == 0
    for top in ("keys", "run", "run-flower", "node-state"):
        for path in ((here / top), *(here / top).rglob("*")):
            assert path.stat().st_mode & 0o077 == 0, path


SCHEMA = (
    'public = true\n[target]\nkind = "class"\nname = "y"\nclasses = ["a", "b"]\n'
    '[[columns]]\nkind = "number"\nname = "x"\nlow = 0\nhigh = 9\n'
)


@pytest.fixture
def told(here, capsys):
    """Two nodes that told of their clients, and a server's table."""
    (here / "schema.toml").write_text(SCHEMA)
    for name, rows in (("north", 30), ("east", 12), ("test", 20)):
        (here / f"{name}.csv").write_text("x,y\n" + "".join(f"{i % 9},{'ab'[i % 2]}\n" for i in range(rows)))
    (here / "plan.toml").write_text('dataset = "test.csv"\nmethod = "fed-cdp"\nrounds = 2\n')
    assert main(["federate", "keys", "keys", "--nodes", "north,east"]) == 0
    for name in ("north", "east"):
        command = ["federate", "clients", "--data", f"{name}.csv", "--schema", "schema.toml"]
        assert main([*command, "--client", name, "--out", f"{name}.json"]) == 0
    assert "east: 12 rows" in capsys.readouterr().out

    def serve(*options):
        given = ["--nodes", "north,east", "--schema", "schema.toml", "--clients", "north.json,east.json"]
        code = main(["federate", "server", "plan.toml", *given, "--out", "run", "--show", *options])
        return code, capsys.readouterr().err

    return serve


def test_a_server_takes_its_clients_from_what_the_nodes_told(told, here):
    code, said = told()
    assert code == 0, said
    plan = store.read_plan(here / "run")
    assert (plan.client_names, plan.client_sizes, plan.cohort, plan.batch) == (("east", "north"), (12, 30), 2, 15)
    assert settings(here)["holders"] == [1, 0]
    assert plan.test == str(here / "test.csv")
    assert told("--resume")[0] == 2


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("plan.toml", 'dataset = "test.csv"\nclients = 9\n', "clients: is given by the nodes"),
        ("east.json", '{"clients": {"north": 12}}', "'north' of east is also a client of another node"),
        ("east.json", '{"clients": {"east": 12}, "schema_sha256": "00"}', "schema: that of east"),
        ("east.json", "[]", "east.json"),
        ("plan.toml", 'dataset = "synthetic"\n', "schema: is only for tables of your own"),
    ],
)
def test_a_server_whose_plan_and_nodes_disagree_does_not_start(told, here, file, text, said):
    (here / file).write_text(text)
    code, err = told()
    assert (code, said in err, err.count("\n")) == (2, True, 1), err
    assert not (here / "run").exists()
