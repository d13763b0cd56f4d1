"""Hostile requests and damaged runs: each gets one sentence, none an error of the server."""

import json
import os
import random
import shutil
import socket
from urllib.parse import quote

import pytest

from gradveil.web.guard import FORM_HEADER, LARGEST
from gradveil.web.run_processes import process_number

SEED, REQUESTS = 20261, 200
FILES = (
    "plan.toml", "data.json", "environment.json", "metrics.jsonl", "result.json", "watch.json", "privacy_card.json",
    "attacks",
)  # fmt: skip
ODD_JSON = (
    "[]", "{}", "null", "3", '"text"', "NaN", "[1, 2", "{" * 3000, "[" * 50_000, '{"round": "x"}', '{"rounds": 5}',
    '{"round": 0, "accuracy": "high", "seconds": 1, "loss": 1}', '{"round": 0, "accuracy": NaN, "seconds": 1}',
    '{"round": 1e400, "accuracy": true, "seconds": -1}', "9" * 5000,
)  # fmt: skip


def names(pick):
    """Give names that no run has, in all ways that break programs."""
    letters = ["\x00", "\n", "\u202e", "\ud7ff", "<script>", "..", "/", "%", "\\", "é", "🏴", " ", "'", '"', "one"]
    return pick.choice(
        [
            lambda: "x" * pick.choice([255, 256, 4096, 9000]),
            lambda: "/".join(["a"] * pick.choice([2, 100, 3000])),
            lambda: "".join(pick.choices(letters, k=pick.randint(1, 12))),
            lambda: "../" * pick.randint(1, 40) + "etc/passwd",
            lambda: pick.choice([".", "..", "~", "one/", "one/.", "one/plan.toml", "loop", "loop/x", "con", "-", ""]),
        ]
    )()


def encoded(pick, name):
    """Write a name into an address: rightly, or with percent signs that mean nothing."""
    return pick.choice(
        [quote(name, safe=""), quote(name), quote(name) + pick.choice(["%", "%z", "%zz", "%ff%fe", "%c3%28", "%00"])]
    )


def values(pick):
    """Give values of fields, from odd numbers to towers of brackets."""
    return pick.choice(
        [
            "", " ", "nan", "-inf", "1e999", "9" * 5000, "-1", "1.5", "0x10", "\u0663", "\ud800", "a\x00b",
            "x" * 50_000, None, True, 10**300, -5, 1.5, [], {}, [[[]]], {"a": {"b": []}},
            "--help", "--out=/tmp/x", "'; rm -rf",
        ]
    )  # fmt: skip


def bodies(pick):
    """Give bodies of requests: no JSON, JSON of the wrong shape, and forms with hostile fields."""
    depth = pick.choice([10, 900, 20_000])
    fields = {"rounds": "0"} | {key: values(pick) for key in pick.sample(FIELDS, pick.randint(0, 6))}
    plan = pick.choice(
        [
            "a = " + "[" * depth, "a = " + "[" * depth + "]" * depth, "[" + ".".join(["a"] * depth) + "]",
            "a = " + "{b=" * depth, "dataset = 3", "dataset = {a = 1}", "dataset = '/etc/passwd'", "x = " + "9" * 5000,
            "\ud800 = 1", "a = 2020-13-45", "rounds = -1\nmethod = 3", "\x00", "=",
        ]
    )  # fmt: skip
    return pick.choice(
        [
            lambda: b"",
            lambda: b"\xff\xfe\x00" * pick.randint(1, 50),
            lambda: b"[" * depth + b"]" * depth,
            lambda: b'{"a":' * depth + b"1" + b"}" * depth,
            lambda: json.dumps(pick.choice([[], 3, "x", None])).encode(),
            lambda: json.dumps(fields).encode(),
            lambda: json.dumps({"plan": plan, "name": "typed"}).encode()[: LARGEST - 10],
            lambda: b" " * (LARGEST + pick.choice([-1, 1, 100_000])),
        ]
    )()


FIELDS = ["name", "dataset", "method", "picture", "sigma", "attack", "rounds", "plan", "lr", "odd", "own", "schema"]


def request(pick, form):
    """Give one hostile request: method, address, headers, body."""
    if pick.random() < 0.5:
        where = pick.choice(["/run/", "/report/", "/events/", "/static/", "/", "/compare?run=one&run="])
        return "GET", where + encoded(pick, names(pick)), {}, None
    if pick.random() < 0.2:
        many = "&".join(f"run={quote(names(pick)[:50])}" for _ in range(pick.choice([1, 13, 400])))
        return pick.choice(["GET", "HEAD"]), f"/compare?{many}&token=%ff", {"cookie": 'gradveil-8765="\\377;;=;'}, None
    name = encoded(pick, names(pick)) or "x"
    where = pick.choice(
        [
            "/api/runs",
            "/api/epsilon",
            "/api/duration",
            "/api/lab",
            f"/api/runs/{name}/stop",
            f"/api/runs/{name}/resume",
            "/run/one",
        ]
    )
    headers = {FORM_HEADER: form}
    if pick.random() < 0.2:
        headers["content-length"] = pick.choice(["-1", "abc", "1e3", "9" * 5000, "\u00b2", "", "0"])
    return pick.choice(["POST", "POST", "POST", "PUT", "PATCH"]), where, headers, bodies(pick)


def is_one_sentence(answer):
    """Whether an answer says no in one line without the inside of a program."""
    text = answer.json()["error"] if "json" in answer.headers.get("content-type", "") else answer.text
    return "Traceback" not in text and text.strip().count("\n") == 0 and 0 < len(text) < 600


def test_two_hundred_hostile_requests_get_an_answer_and_never_an_error_of_the_server(trained, client, tmp_path):
    root = tmp_path / "runs"
    shutil.copytree(trained, root)
    (root / "loop").symlink_to(root / "loop")
    pick = random.Random(SEED)
    statuses = []
    asked = client(root)
    for turn in range(REQUESTS):
        method, address, headers, body = request(pick, asked.rules.form)
        raw = [(key.encode(), value.encode("latin-1")) for key, value in headers.items()]
        sent = asked.build_request(method, "http://127.0.0.1:8765/", headers=raw, content=body)
        sent.url = sent.url.copy_with(raw_path=address.encode())
        answer = asked.send(sent, follow_redirects=False)
        assert answer.status_code < 500, (turn, method, address[:100], (body or b"")[:100], answer.text[:300])
        if method != "HEAD" and answer.status_code >= 400:
            assert is_one_sentence(answer), (turn, method, address[:100], answer.text[:300])
        statuses.append(answer.status_code)
    assert {400, 404, 413} <= set(statuses)
    assert sorted(path.name for path in root.iterdir() if not path.name.startswith(".")) == ["loop", "one", "two"]
    assert client(root).get("/run/one").status_code == 200


def damage(pick, folder):
    """Break one file of a run: cut, emptied, replaced by odd content, a folder, a pipe or a link, or taken away."""
    path = folder / pick.choice(FILES)
    attacks = sorted((folder / "attacks").iterdir())
    path = pick.choice(attacks) if path.name == "attacks" else path
    content = path.read_bytes()
    how = pick.choice(["cut", "flip", "odd", "bytes", "empty", "folder", "pipe", "link", "gone"])
    path.unlink()
    if how == "folder":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "link":
        path.symlink_to(folder / "nowhere")
    elif how != "gone":
        at = pick.randrange(len(content))
        path.write_bytes(
            {
                "cut": content[:at],
                "flip": content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :],
                "odd": pick.choice(ODD_JSON).encode() + b"\n",
                "bytes": pick.randbytes(300),
                "empty": b"",
            }[how]
        )
    return f"{path.name} {how}"


@pytest.mark.slow
def test_damaged_runs_are_told_of_in_one_sentence_and_hide_no_other(trained, client, tmp_path):
    pick = random.Random(SEED)
    refused = 0
    for turn in range(60):
        root = tmp_path / str(turn)
        shutil.copytree(trained / "one", root / "whole")
        shutil.copytree(trained / "one", root / "broken")
        done = damage(pick, root / "broken")
        asked = client(root)
        index = asked.get("/")
        assert index.status_code == 200, (done, index.text[:300])
        assert 'href="/run/whole"' in index.text
        rooms = ["run", "events"] + ["report"] * (turn % 3 == 0)  # reports take a second each
        for room in rooms:
            answer = asked.get(f"/{room}/broken")
            assert answer.status_code in (200, 404, 422), (done, room, answer.text[:300])
            if answer.status_code != 200:
                assert is_one_sentence(answer), (done, room, answer.text[:300])
                refused += 1
    assert refused > 40


@pytest.mark.parametrize("odd", ["-1", "0", "-12", "x", "", "9" * 30, "1 2", "1\n", "\u0663", "1e3", "+1", "007"])
def test_a_number_that_stands_for_many_processes_or_none_is_not_believed(odd):
    assert process_number(odd) is None  # no request is made: were -1 believed, a stop would end all of this machine
    assert process_number("1234567") == 1234567


def test_a_damaged_record_of_a_process_means_that_none_is_running(trained, client, post, tmp_path):
    shutil.copytree(trained / "one", tmp_path / "one")
    for odd in ("x", "", "9" * 30, "9" * 10, "1 2"):
        (tmp_path / ".one.process").write_text(odd)
        answer = post(client(tmp_path), "/api/runs/one/stop", {})
        assert (answer.status_code, answer.json()["error"]) == (
            400,
            "the run 'one' is not running, or was not started from this page",
        )


def test_a_run_whose_name_is_no_text_is_listed_and_breaks_no_page(trained, client, tmp_path):
    shutil.copytree(trained / "one", tmp_path / "one")
    os.rename(tmp_path / "one", os.fsencode(tmp_path) + b"/odd\xff")
    page = client(tmp_path).get("/")
    assert page.status_code == 200
    assert "unreadable" in page.text


def test_a_folder_that_cannot_be_written_is_one_sentence(client, post, small, tmp_path):
    root = tmp_path / "gone"
    root.mkdir()
    asked = client(root)
    root.rmdir()
    answer = post(asked, "/api/runs", small | {"name": "new"})
    assert answer.status_code == 503
    assert answer.json()["error"] == "the folder of runs cannot be used now (No such file or directory)"


BROKEN = (
    b"GET /run/\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
    b"GET /%zz%ff?token=%ff HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
    b"GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
    b"POST /api/runs HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: -5\r\n\r\n",
    b"POST /api/runs HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nCookie: " + b"a" * 100_000 + b"\r\n\r\n",
    b"GET /run/one HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
)


def test_broken_requests_end_in_a_refusal_and_the_server_lives_on(served, trained):
    with served(trained) as (server, port, _):
        for raw in BROKEN:
            with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
                line.sendall(raw.replace(b"PORT", str(port).encode()))
                line.shutdown(socket.SHUT_WR)
                said = line.recv(4096)
            assert said == b"" or 400 <= int(said.split()[1]) < 500, raw[:60]
        with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
            line.sendall(b"GET / HTTP/1.0\r\nHost: 127.0.0.1:%d\r\n\r\n" % port)
            assert line.recv(4096).split()[1] == b"401"
        assert server.poll() is None
