"""Who is let in by a real server: only who has the token, whoever else has an account on this machine."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from gradveil.cli.main import main

TOKEN = "a-token-of-some-length"
STRANGER = 65534
ADDRESSES = [
    ("GET", "/"), ("GET", "/new"), ("GET", "/lab"), ("GET", "/run/one"), ("GET", "/report/one"), ("GET", "/events/one"),
    ("GET", "/compare?run=one&run=two"), ("GET", "/static/page.js"), ("GET", "/nothing"), ("HEAD", "/"),
    ("OPTIONS", "/"), ("GET", "/api/runs"), ("POST", "/api/runs"), ("POST", "/api/lab"),
    ("POST", "/api/epsilon"), ("POST", "/api/duration"),
    ("POST", "/api/runs/one/stop"), ("POST", "/api/runs/one/resume"), ("PUT", "/run/one"), ("DELETE", "/run/one"),
]  # fmt: skip


def ask(port, method, address, headers=None, body=None):
    """Give status, headers and the first bytes of an answer to one real request."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    line.request(method, address, body, headers or {})
    answer = line.getresponse()
    told = answer.status, dict(answer.getheaders()), answer.read().decode()
    line.close()
    return told


def enter(port, address):
    """Open the printed address and give the cookie."""
    status, headers, body = ask(port, "GET", address.partition(str(port))[2])
    assert (status, headers["location"], body) == (303, "/", "")
    return {"Cookie": headers["set-cookie"].partition(";")[0]}


def test_without_the_token_nothing_is_answered_on_loopback_either(served, trained):
    with served(trained) as (_, port, address):
        assert address.startswith(f"http://127.0.0.1:{port}/?token=")
        token = address.partition("?token=")[2]
        assert len(token) >= 32
        wrong = [{}, {"Cookie": "gradveil=x"}, {"Cookie": f"gradveil-{port}={token}"}, {"Authorization": token}]
        for method, place in ADDRESSES:
            for headers in wrong if place == "/run/one" else wrong[:1]:
                status, _, body = ask(port, method, place, headers, b"{}" if method == "POST" else None)
                assert status == 401, (method, place)
                assert len(body) < 150
                assert body.count("\n") <= 1
                assert "synthetic" not in body
        assert ask(port, "GET", f"/?token={token[:-1]}")[0] == 401
        cookie = enter(port, address)
        page = ask(port, "GET", "/", cookie)
        assert page[0] == 200
        assert "synthetic" in page[2]
        assert token not in page[2]
        assert ask(port, "POST", "/api/runs/one/resume", cookie, b"{}")[0] == 403


def test_the_cookie_is_kept_from_scripts_and_other_sites_and_the_address_forgets_the_token(served, trained):
    with served(trained) as (_, port, address):
        token = address.partition("?token=")[2]
        _, headers, _ = ask(port, "GET", f"/?token={token}")
        cookie = headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert cookie.startswith(f"gradveil-{port}=")  # browsers keep one jar for all ports of a host
        assert token.lower() not in cookie
        _, headers, _ = ask(port, "GET", f"/compare?run=one&token={token}&run=two%20")
        assert headers["location"] == "/compare?run=one&run=two%20"
        for there in ("//evil.example/", "/\\evil.example/"):
            _, headers, _ = ask(port, "GET", f"{there}?token={token}")
            assert headers["location"].startswith("/evil.example")


def as_stranger(port, owner, requests):
    """Run real requests, and a look at what the system tells of the server, as a user without rights."""
    program = """
import http.client, json, sys
port, owner, requests = json.loads(sys.argv[1])
told = {"answers": []}
for method, place in requests:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    line.request(method, place, b"{}" if method == "POST" else None)
    answer = line.getresponse()
    told["answers"].append([method, place, answer.status, answer.read().decode()])
for name in ("cmdline", "environ"):
    try:
        told[name] = open(f"/proc/{owner}/{name}", "rb").read().decode(errors="replace")
    except OSError as error:
        told[name] = "refused"
print(json.dumps(told))
"""
    found = run_as_stranger(stranger_python(), "-c", program, json.dumps([port, owner, requests]))
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def run_as_stranger(*command):
    return subprocess.run(
        command, user=STRANGER, group=STRANGER, extra_groups=[], cwd="/", env={}, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip


def stranger_python():
    """Give an interpreter that another user may start; one in somebody's home is none."""
    for python in filter(None, (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin"))):
        with suppress(PermissionError):
            if run_as_stranger(python, "-c", "import http.client").returncode == 0:
                return python
    pytest.skip("no interpreter can be started by another user")


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
@pytest.mark.parametrize("way", ["fresh", "environment", "file"])
def test_another_user_of_this_machine_cannot_read_or_change_anything(served, trained, tmp_path, way):
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "token").chmod(0o600)
    options = ["--token-file", str(tmp_path / "token")] if way == "file" else []
    environment = {"GRADVEIL_TOKEN": TOKEN} if way == "environment" else {}
    before = sorted(path.name for path in trained.iterdir())
    with served(trained, *options, environment=environment) as (server, port, address):
        told = as_stranger(port, server.pid, ADDRESSES)
        token = address.partition("?token=")[2] if way == "fresh" else TOKEN
        assert ask(port, "GET", f"/?token={token}")[0] == 303  # its owner is let in
    assert len(told["answers"]) == len(ADDRESSES)
    assert {status for _, _, status, _ in told["answers"]} == {401}
    assert not any("synthetic" in body or "fed-cdp" in body for *_, body in told["answers"])
    assert "serve" in told["cmdline"]  # what ps shows
    assert token not in told["cmdline"]
    assert told["environ"] == "refused"
    assert sorted(path.name for path in trained.iterdir()) == before


@pytest.mark.slow
def test_a_token_from_a_file_or_the_environment_is_not_printed_and_one_from_an_option_is_warned_of(served, trained):
    for options, environment in (([], {"GRADVEIL_TOKEN": TOKEN}), (["--token", TOKEN], {})):
        with served(trained, *options, environment=environment) as (server, port, address):
            assert address == f"http://127.0.0.1:{port}/?token=..."
            assert ask(port, "GET", f"/?token={TOKEN}")[0] == 303
            assert server.stderr.readline() == "gradveil: put your token in place of the dots\n"
            if options:
                assert "can be read by every user of this machine" in server.stderr.readline()


@pytest.mark.slow
def test_a_run_that_the_page_starts_does_not_inherit_the_token(served, tmp_path, small):
    with served(tmp_path, environment={"GRADVEIL_TOKEN": TOKEN}) as (_, port, _):
        cookie = enter(port, f"{port}/?token={TOKEN}")
        page = ask(port, "GET", "/new", cookie)[2]
        form = page.partition('name="form-token" content="')[2].partition('"')[0]
        wanted = json.dumps(small | {"rounds": "4000", "name": "long"}).encode()
        status, _, told = ask(port, "POST", "/api/runs", cookie | {"x-gradveil-form": form}, wanted)
        assert (status, json.loads(told)) == (200, {"name": "long"})
        pid = int((tmp_path / ".long.process").read_text())
        try:
            assert TOKEN.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        finally:
            os.kill(pid, signal.SIGTERM)
            end = time.monotonic() + 30
            while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
                time.sleep(0.1)


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (TOKEN, 0o644, "others may read it (mode 644)"),
        (TOKEN, 0o640, "others may read it (mode 640)"),
        ("short", 0o600, "must be 16 to 256 letters"),
        (TOKEN + "\n" + TOKEN, 0o600, "must be 16 to 256 letters"),
        ("letters with spaces in it", 0o600, "must be 16 to 256 letters"),
        ("x" * 5000, 0o600, "one token and nothing else"),
        ("\xff" * 20, 0o600, "cannot be read (it is not plain text)"),
    ],
)
def test_a_token_file_that_is_open_or_holds_no_token_is_refused(capsys, tmp_path, monkeypatch, content, mode, said):
    monkeypatch.delenv("GRADVEIL_TOKEN", raising=False)
    file = tmp_path / "token"
    file.write_text(content)
    file.chmod(mode)
    assert main(["serve", str(tmp_path), "--token-file", str(file)]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert content[:16] not in told
    assert main(["serve", str(tmp_path), "--token-file", str(tmp_path)]) == 2
    assert main(["serve", str(tmp_path), "--token-file", str(tmp_path / "none")]) == 2
    assert main(["serve", str(tmp_path), "--token-file", str(file), "--token", TOKEN]) == 2
    assert "give one of them" in capsys.readouterr().err
