"""A real federation and another user of its host, who gets nothing; and nodes that are refused, and say why."""

import json
import os
import shutil
import signal
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path

import pytest

import gradveil
from gradveil.data.sources import load
from gradveil.deployment import conductor, supervisor
from gradveil.deployment.conductor import Federation
from gradveil.deployment.local import local
from gradveil.deployment.policy import Policy
from gradveil.engines.flower import commands, credentials, processes
from gradveil.methods import FED_CDP
from gradveil.runs.presets import resolve

pytestmark = pytest.mark.flower
NODES = ("site-0", "site-1")
QUIET = lambda sentence: None  # noqa: E731
NOBODY = 65534
SOURCES = str(Path(gradveil.__file__).parents[1])
BOUND = 400

STRANGER = """
import encodings.idna, json, os, ssl, sys
from http.client import HTTPSConnection

import httpx
from flwr.cli.app import app
from typer.testing import CliRunner

from flwr.superlink.routers.control import router as control
from flwr.supercore.routers.runtime import responses_router
from flwr.supercore.routers.runtime.router import router as runtime
from flwr.superlink.routers.fleet.router import router as fleet

port, user, commands, files = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4:]
httpx.Client().close()  # what is imported late must be there before the interpreter's own files cannot be read any more
trust = ssl._create_unverified_context()
if os.getuid() != user:  # the interpreter may lie where only this user can start it
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
found = {"uid": os.getuid(), "answers": {}, "read": [], "commands": {}}
rooms = {"control": control, "runtime": runtime, "responses": responses_router, "fleet": fleet}
asked = [(room, "POST", route.path) for room, router in rooms.items() for route in router.routes]
asked += [("pages", "GET", path) for path in ("/docs", "/openapi.json", "/", "/v1/fleet/../control/list-runs")]
asked += [("tricks", "POST", path) for path in
          ("//v1/control/list-runs", "/v1/fleet/../control/list-runs", "/v1/fleet/%2e%2e/control/list-runs",
           "/v1/control/list-runs/", "/health/../v1/control/list-runs", "/V1/CONTROL/list-runs")]
for room, verb, path in asked:
    for kind in ("application/protobuf", "application/json"):
        link = HTTPSConnection("127.0.0.1", port, timeout=20, context=trust)
        headers = {"content-type": kind, "accept": kind, "x-gradveil-owner": "00" * 32}
        link.request(verb, path, body=b"", headers=headers)
        answer = link.getresponse()
        found["answers"].setdefault(room, []).append([path, answer.status, answer.read().decode(errors="replace")])
        link.close()
for file in files:
    try:
        open(file, "rb").read()
        found["read"].append(file)
    except OSError:
        pass
for name, command in commands.items():
    done = CliRunner().invoke(app, command)
    found["commands"][name] = [done.exit_code, done.output + repr(done.exception)]
print(json.dumps(found))
"""
APP = """import pathlib
from flwr.serverapp import ServerApp

app = ServerApp()
pathlib.Path({marker!r}).write_text("ran")


@app.main()
def main(grid, context):
    pathlib.Path({marker!r}).write_text(str(list(grid.get_node_ids())))
"""
PROJECT = """
[project]
name = "foreign"
version = "1.0.0"
description = "x"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "stranger"
[tool.flwr.app.components]
serverapp = "foreign.server:app"
clientapp = "foreign.server:app"
"""


@dataclass
class Seen:
    """What was found out while the federation ran: by a stranger, and in its files at the end."""

    stranger: dict
    marker: Path
    here: object
    folder: Path
    scratch: Path


def broken_off(number, frame):
    raise TimeoutError(f"took more than {BOUND} s")


@pytest.fixture(autouse=True)
def bounded():
    before = signal.signal(signal.SIGALRM, broken_off)
    signal.alarm(BOUND)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def as_stranger(home, port, files):
    """Try everything as another user, if this one may become it; the network knows no users, so else all the same."""
    user = NOBODY if os.geteuid() == 0 else os.geteuid()
    command = [sys.executable, "-c", STRANGER, str(port), str(user), json.dumps(COMMANDS), *files]
    surroundings = commands.environment(home) | {"HOME": str(home), "PYTHONPATH": SOURCES}
    done = subprocess.run(command, cwd=home, env=surroundings, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def foreign_app(home, marker):
    package = home / "app" / "foreign"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "server.py").write_text(APP.format(marker=str(marker)))
    (home / "app" / "pyproject.toml").write_text(PROJECT)


def configured(home, here):
    """Give the stranger what is public: the address of the server and its CA's certificate."""
    shutil.copy(here.server.keys / credentials.CA, home / "ca.crt")
    credentials.make(home / "own", ["localhost"], ["stranger"])
    link = f'address = "{here.server.address}"\nroot-certificates = "{home / "ca.crt"}"\n'
    (home / "config.toml").write_text(f'[superlink]\ndefault = "there"\n[superlink.there]\n{link}')
    for path in (home, *home.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)


@pytest.fixture(scope="module")
def seen():
    """Run two rounds on two nodes; after the first one the stranger tries what there is to try."""
    with (
        tempfile.TemporaryDirectory(prefix="stranger-") as theirs,
        tempfile.TemporaryDirectory(prefix="owner-") as ours,
        local(NODES, "synthetic", Policy(allow_seeded=True, allow_no_guarantee=True)) as here,
    ):
        folder, scratch = Path(ours) / "run", here.server.state.parent
        for place in (folder.parent, scratch):  # what protects files must not be where this test keeps them
            place.chmod(0o755)
        foreign_app(Path(theirs), Path(theirs) / "ran")
        configured(Path(theirs), here)
        found = ran(here, folder, scratch, Path(theirs))
        yield Seen(found, Path(theirs) / "ran", here, folder, scratch)
        for name in here.crew.processes:  # shown if a test fails
            print(f"--- {name}", here.crew.log(name).read_text(errors="replace")[-2000:], sep="\n")


def ran(here, folder, scratch, home):
    """Run the federation; gives what the stranger found."""
    data, changes = load("synthetic"), {"clients": 6, "cohort": 6, "rounds": 2, "local_steps": 3, "client_size": 20}
    plan = resolve("synthetic", data, FED_CDP, changes | {"batch": 4, "seed": 5})
    supervisor.open_server(here.crew, here.server, NODES, QUIET)
    for name in NODES:
        here.start_node(name)
    conductor.lay_out(plan, data, folder, Federation(nodes=NODES, deadline=60.0, patience=90.0))
    supervisor.begin(here.crew, here.server, folder, QUIET)
    found = {}
    for line in supervisor.follow(here.crew, here.server, folder, QUIET):
        if line.round == 0:
            files = [str(p) for top in (scratch, folder) for p in top.rglob("*") if p.is_file()]
            found = as_stranger(home, here.server.port, files) | {"files": len(files)}
    return found


COMMANDS = {
    "run": ["run", "app", "there"],
    "list": ["list", "there"],
    "nodes": ["supernode", "list", "there"],
    "register": ["supernode", "register", "own/stranger.pub", "there"],
}


@pytest.mark.parametrize("room", ["control", "runtime", "responses", "pages", "tricks"])
def test_a_stranger_is_refused_whatever_he_asks_the_server(seen, room):
    answers = seen.stranger["answers"][room]
    assert answers
    assert seen.stranger["uid"] == (NOBODY if os.geteuid() == 0 else os.geteuid())
    allowed = {403} if room not in ("pages", "tricks") else {403, 404}  # what the server does not know, it may say
    assert {status for _, status, _ in answers} <= allowed, answers


def test_a_stranger_without_a_registered_key_gets_nothing_as_a_node_either(seen):
    answers = seen.stranger["answers"]["fleet"]
    assert len(answers) >= 20
    assert all(400 <= status < 500 for _, status, _ in answers), answers
    assert 401 in {status for _, status, _ in answers}


def test_the_commands_of_flower_do_nothing_for_a_stranger_and_his_app_is_never_executed(seen):
    assert set(seen.stranger["commands"]) == set(COMMANDS)
    for code, said in seen.stranger["commands"].values():
        assert code != 0
        assert "403 Forbidden" in said
    time.sleep(2)
    assert not seen.marker.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_a_stranger_reads_no_file_of_the_federation(seen):
    assert seen.stranger["files"] > 20
    assert seen.stranger["read"] == []


def test_the_owner_can_ask_what_strangers_cannot(seen):
    """Without this the refusals above could come from a server that answers nobody."""
    trust = ssl.create_default_context(cafile=str(seen.here.server.keys / credentials.CA))
    link = HTTPSConnection("127.0.0.1", seen.here.server.port, timeout=20, context=trust)
    headers = {"content-type": "application/protobuf", "accept": "application/protobuf"}
    link.request("POST", "/v1/control/list-runs", body=b"", headers=headers | seen.here.server.credentials())
    status = link.getresponse().status
    link.close()
    assert status == 200


def test_no_process_shows_a_secret_in_its_command_line(seen):
    secret = seen.here.server.owner.read_bytes().hex()
    lines = [Path(f"/proc/{p.pid}/cmdline").read_bytes() for p in seen.here.crew.processes.values() if p.poll() is None]
    assert len(lines) >= 5
    assert not [line for line in lines if secret.encode() in line or b"--token" in line]


def test_all_that_a_federation_writes_is_readable_by_its_owner_alone(seen):
    paths = [p for top in (seen.scratch, seen.folder) for p in top.rglob("*")] + [seen.folder]
    names = {path.name for path in paths}
    assert {"superlink.db", "owner.secret", "superlink.log", "spending.json", "params.npz", "metrics.jsonl"} <= names
    open_to_others = {str(p): oct(p.stat().st_mode) for p in paths if p.stat().st_mode & 0o077}
    assert open_to_others == {}


def test_what_was_delivered_is_not_in_the_database_any_more(seen):
    """Arrays travel in numpy's format, so its mark would be found in a page or in the write-ahead log."""
    database = seen.here.server.database
    with sqlite3.connect(database) as link:
        kept = {t: link.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("objects", "message_res")}
        assert link.execute("SELECT count(*) FROM node").fetchone()[0] == len(NODES)
    assert kept == {"objects": 0, "message_res": 0}
    for file in database.parent.glob("superlink.db*"):
        assert b"\x93NUMPY" not in file.read_bytes(), file


def refused(address, tmp_path, key, ca, retry=3):
    """Start `federate node` with these credentials, and wait for its end."""
    (tmp_path / "policy.toml").write_text("maximum_epsilon = 8.0\n")
    command = [
        *(sys.executable, "-m", "gradveil", "federate", "node", "--data", "synthetic", "--shard", "0/2"),
        *("--server", address, "--key", str(key), "--ca", str(ca), "--policy", "policy.toml"),
        *("--runtime-port", str(processes.free_ports(1)[0]), "--retry", str(retry)),
    ]
    surroundings = os.environ | {"PYTHONPATH": SOURCES}
    return subprocess.run(
        command, cwd=tmp_path, env=surroundings, capture_output=True, text=True, timeout=150, check=False
    )


def test_a_node_with_an_unregistered_key_says_so_and_ends(seen, tmp_path):
    credentials.make(tmp_path / "other", ["localhost", "127.0.0.1"], ["stranger"])
    done = refused(
        seen.here.server.address, tmp_path, tmp_path / "other" / "stranger.key", seen.here.nodes["site-0"].ca, retry=25
    )
    assert done.returncode == 1, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert "does not accept the key" in last
    assert "not registered" in last
    assert "gave up after 25 s" in last


def test_a_node_that_trusts_another_ca_says_so_and_ends(seen, tmp_path):
    credentials.make(tmp_path / "other", ["localhost", "127.0.0.1"], ["stranger"])
    done = refused(
        seen.here.server.address, tmp_path, seen.here.nodes["site-0"].key, tmp_path / "other" / credentials.CA
    )
    assert done.returncode == 1, done.stderr
    assert "was not signed by the CA in" in done.stderr.strip().splitlines()[-1]


def test_a_node_that_finds_nobody_says_so_and_ends(seen, tmp_path):
    node = seen.here.nodes["site-0"]
    done = refused(f"127.0.0.1:{processes.free_ports(1)[0]}", tmp_path, node.key, node.ca)
    assert done.returncode == 1, done.stderr
    assert "no server responds at" in done.stderr.strip().splitlines()[-1]
