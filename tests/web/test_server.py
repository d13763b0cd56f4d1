"""The live page without a browser: who may ask, what is refused, what is escaped, and that runs live on their own."""

import json
import os
import socket
import time

import pytest

from gradveil.cli.main import main
from gradveil.runs import store
from gradveil.web.guard import FORM_HEADER, LARGEST, Rules

HOST = "127.0.0.1:8765"


def test_runs_are_listed_with_what_they_came_to(trained, client):
    page = client(trained).get("/").text
    assert 'href="/run/one"' in page
    assert "fed-cdp" in page
    assert "finished" in page


def test_a_run_its_report_and_a_comparison_are_shown(trained, client):
    asked = client(trained)
    assert "round" in asked.get("/run/one").text
    report = asked.get("/report/one").text
    assert "What is guaranteed" in report
    both = asked.get("/compare", params=[("run", "one"), ("run", "two")]).text
    assert "Side by side" in both
    for too_few in ("run=one", "run=one&run=one", ""):
        assert asked.get(f"/compare?{too_few}").status_code == 400


def test_events_tell_of_a_run_and_end_with_it(trained, client):
    with client(trained).stream("GET", "/events/one") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        (line,) = [line for line in stream.iter_lines() if line]
    told = json.loads(line.removeprefix("data: "))
    assert (told["state"], told["done"], told["rounds"]) == ("finished", 2, 2)


@pytest.mark.parametrize(
    "name", ["../one", "%2e%2e/%2e%2e/etc", "....//one", "/etc", "%2fetc%2fpasswd", "one/../../x", ".", "three"]
)
@pytest.mark.parametrize("room", ["run", "report", "events"])
def test_nothing_outside_the_folder_of_runs_is_read(trained, tmp_path, room, name, client):
    (trained.parent / "plan.toml").write_text("secret")
    answer = client(trained).get(f"/{room}/{name}")
    assert answer.status_code == 404
    assert "secret" not in answer.text


def test_a_link_out_of_the_folder_is_not_followed(trained, tmp_path, client):
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "plan.toml").write_text((trained / "one" / "plan.toml").read_text())
    (trained / "link").symlink_to(other)
    try:
        assert client(trained).get("/report/link").status_code == 404
    finally:
        (trained / "link").unlink()


def test_names_with_markup_are_escaped(trained, client):
    name = "<img src=x onerror=alert(1)>"
    os.rename(trained / "two", trained / name)
    try:
        asked = client(trained)
        for address in ("/", f"/run/{name}", f"/report/{name}"):
            page = asked.get(address)
            assert page.status_code == 200
            assert "<img src=x" not in page.text
    finally:
        os.rename(trained / name, trained / "two")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:1", "127.0.0.1.evil.example:8765", ""])
def test_another_host_name_is_not_served(trained, host, client):
    assert client(trained).get("/", headers={"host": host}).status_code == 421


def test_another_website_cannot_start_a_run_nor_can_a_form_without_its_token(trained, client, post, small):
    asked = client(trained)
    assert post(asked, "/api/runs", small, origin="http://evil.example").status_code == 403
    assert post(asked, "/api/runs", small, **{FORM_HEADER: "guess"}).status_code == 403
    assert asked.post("/api/runs", json=small).status_code == 403
    assert asked.post("/api/lab", json={}).status_code == 403
    assert asked.get("/api/runs").status_code == 405


def test_with_a_token_every_request_is_checked_and_the_address_forgets_it(trained, client, small):
    asked = client(trained, Rules(None, "a-token-of-some-length"), enter=False)
    for address in ("/", "/run/one", "/events/one", "/static/page.js", "/lab"):
        assert asked.get(address).status_code == 401
    assert asked.get("/?token=wrong-token-of-length").status_code == 401
    entered = asked.get("/?token=a-token-of-some-length", follow_redirects=False)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    assert "httponly" in entered.headers["set-cookie"].lower()
    assert asked.get("/").status_code == 200
    assert asked.post("/api/runs", json=small).status_code == 403


def test_what_is_too_large_or_no_object_is_refused(trained, client, post):
    asked = client(trained)
    assert post(asked, "/api/runs", {"plan": "x" * LARGEST}).status_code == 413
    assert post(asked, "/api/runs", ["a", "list"]).status_code == 400
    answer = asked.post("/api/runs", content=b"{", headers={FORM_HEADER: asked.rules.form})
    assert answer.json() == {"error": "the request is not JSON"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rounds": "0"}, "rounds = 0"),
        ({"sigma": "-1"}, "sigma"),
        ({"method": "magic"}, "magic"),
        ({"max-epsilon": "0.0001"}, "one round already spends"),  # which only the process of the run finds out
    ],
)
def test_a_wrong_value_gets_the_sentence_of_the_command_line(trained, capsys, changes, said, client, post, small):
    wanted = small | changes
    answer = post(client(trained), "/api/runs", wanted | {"name": "wrong"})
    assert answer.status_code == 400
    flags = [part for key, value in wanted.items() for part in (f"--{key}", value)]
    assert main(["run", *flags, "--out", str(trained / "wrong")]) == 2
    assert answer.json()["error"] == capsys.readouterr().err.strip().removeprefix("gradveil: ")
    assert said in answer.json()["error"]
    assert not (trained / "wrong").exists()
    assert list(trained.glob(".wrong*")) == []


@pytest.mark.parametrize(("key", "what"), [("lr", "a number"), ("client-size", "a whole number")])
def test_a_field_that_is_no_number_is_refused_by_its_name(trained, key, what, client, post, small):
    answer = post(client(trained), "/api/runs", small | {key: "fast", "name": "wrong"})
    assert answer.status_code == 400
    assert answer.json()["error"] == f"{key.replace('-', '_')} = 'fast': {what} is expected"


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "x" * 65, "a b", "<b>", "one"])
def test_a_name_that_is_none_or_taken_is_refused(trained, name, client, post, small):
    answer = post(client(trained), "/api/runs", small | {"name": name})
    assert answer.status_code == 400
    assert "name = " in answer.json()["error"]


def wait_for(asked, name, state, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        told = asked.get(f"/run/{name}").text
        if f'data-state="{state}"' in told:
            return told
        time.sleep(0.3)
    raise AssertionError(told)


def wait_until(holds, seconds=120):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"it did not happen within {seconds} s"
        time.sleep(0.1)


@pytest.mark.slow
def test_a_run_is_a_process_of_its_own_that_can_be_stopped_and_taken_up(tmp_path, client, post, small):
    asked = client(tmp_path)
    long = small | {"rounds": "4000", "name": "long"}
    assert post(asked, "/api/runs", long).json() == {"name": "long"}
    # Another server, as after this one was closed, finds it running and can stop it.
    other = client(tmp_path)
    wait_for(other, "long", "running")
    wait_until(lambda: store.read_metrics(tmp_path / "long"))
    assert post(other, "/api/runs/long/stop", {}).status_code == 200
    wait_for(other, "long", "stopped")
    done = len(store.read_metrics(tmp_path / "long"))
    assert 0 < done < 4000
    assert (
        post(other, "/api/runs/long/stop", {}).json()["error"]
        == "the run 'long' is not running, or was not started from this page"
    )
    assert post(other, "/api/runs/long/resume", {}).status_code == 200
    wait_for(other, "long", "running")
    wait_until(lambda: len(store.read_metrics(tmp_path / "long")) > done)
    assert post(other, "/api/runs/long/stop", {}).status_code == 200
    wait_for(other, "long", "stopped")


def test_a_run_that_fails_later_says_why_on_its_page_and_as_data(tmp_path, client, post, small):
    asked = client(tmp_path)
    doomed = small | {"method": "non-private", "lr": "1e6", "rounds": "200", "name": "doomed"}
    assert post(asked, "/api/runs", doomed).json() == {"name": "doomed"}
    page = wait_for(asked, "doomed", "stopped")
    assert "the run diverged" in page
    told = json.loads((tmp_path / ".doomed.status").read_text())
    assert (told["doing"], "the run diverged" in told["refused"]) == ("ended", True)


@pytest.mark.slow
def test_a_page_starts_attacks_and_reports_like_the_command_line(tmp_path, trained, client, post, small):
    asked = client(tmp_path)
    assert post(asked, "/api/runs", small | {"max-epsilon": "500", "attack": "on", "name": "one"}).status_code == 200
    wait_for(asked, "one", "finished")

    def told(root):
        result = json.loads((root / "one" / "result.json").read_text())
        attacks = [json.loads(path.read_text()) for path in sorted((root / "one" / "attacks").glob("*.json"))]
        return (
            [result[key] for key in ("params_sha256", "plan_sha256", "guarantees")],
            [[one[key] for key in ("settings_sha256", "mean_rmse", "victims")] for one in attacks],
        )

    assert told(tmp_path) == told(trained)
    assert len(told(tmp_path)[1]) == 3
    for name in ("report.html", "privacy_card.json"):
        assert (tmp_path / "one" / name).exists()


def test_a_typed_plan_is_validated_like_a_file(trained, tmp_path, client, post):
    asked = client(tmp_path)
    answer = post(asked, "/api/runs", {"plan": 'dataset = "synthetic"\nmagic = 1\n', "name": "typed"})
    assert answer.status_code == 400
    assert "magic: unknown key" in answer.json()["error"]
    assert list(tmp_path.glob("*")) == []
    assert "is not TOML" in post(asked, "/api/runs", {"plan": "a = "}).json()["error"]
    for plan in ({"plan": f'dataset = "{trained}/own.csv"'}, {"dataset": "/etc/passwd"}):
        assert "only start runs on built-in datasets" in post(asked, "/api/runs", plan).json()["error"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dataset": "/etc"}, "dataset"),
        ({"picture": "100"}, "picture"),
        ({"sigma": "x"}, "sigma"),
        ({"attack": 3}, "attack"),
    ],
)
def test_the_lab_refuses_what_it_does_not_know(trained, changes, said, client, post):
    given = {"dataset": "digits", "picture": "1", "method": "non-private", "sigma": "1", "attack": "cpl"} | changes
    answer = post(client(trained), "/api/lab", given)
    assert answer.status_code == 400
    assert said in answer.json()["error"]


def test_the_lab_rebuilds_an_unprotected_digit_step_by_step_and_not_a_noised_one(trained, client, post):
    given = {"dataset": "digits", "picture": "1", "method": "non-private", "sigma": "6", "attack": "cpl"}
    bare = post(client(trained), "/api/lab", given).json()
    assert len(bare["frames"]) > 2
    assert bare["frames"][0]["iteration"] < bare["frames"][-1]["iteration"]
    assert bare["error"] < 0.1 < bare["prior_error"]
    assert bare["truth"].startswith("data:image/png;base64,")
    veiled = post(client(trained), "/api/lab", given | {"method": "fed-cdp"}).json()
    assert veiled["error"] > bare["error"] + 0.1


def test_the_lab_shows_pictures_of_a_method_whose_own_model_reads_features(trained, client, post):
    given = {"dataset": "digits", "picture": "1", "method": "fed-sum", "sigma": "6", "attack": "cpl"}
    answer = post(client(trained), "/api/lab", given)
    assert answer.status_code == 200, answer.text
    shown, bare = answer.json(), post(client(trained), "/api/lab", given | {"method": "non-private"}).json()
    assert shown["truth"] == bare["truth"]
    assert shown["error"] > bare["error"] + 0.1


def test_pages_keep_to_themselves(trained, client):
    answer = client(trained).get("/run/one")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    for line in answer.text.splitlines():
        assert "//" not in line.replace("<!doctype", "")


def test_one_folder_that_cannot_be_read_hides_no_other(trained, client):
    broken = trained / "broken"
    broken.mkdir()
    (broken / "plan.toml").write_text("no plan")
    (trained / ".x.partial").mkdir()
    (trained / ".x.partial" / "plan.toml").write_text("half")
    try:
        page = client(trained).get("/").text
        assert "unreadable" in page
        assert 'href="/run/one"' in page
        assert "partial" not in page
    finally:
        for folder in (broken, trained / ".x.partial"):
            (folder / "plan.toml").unlink()
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()


@pytest.mark.parametrize("verb", ["stop", "resume"])
@pytest.mark.parametrize("name", ["../outside", "%00", "nothing"])
def test_only_runs_of_the_folder_are_stopped_or_taken_up(trained, verb, name, client, post):
    (trained.parent / ".outside.process").write_text("1")
    assert post(client(trained), f"/api/runs/{name}/{verb}", {}).status_code in (400, 404, 405)


def test_a_body_longer_than_it_says_is_not_read(trained, client):
    asked = client(trained)

    def chunks():
        for _ in range(3 * LARGEST // 1000):
            yield b" " * 1000

    headers = {FORM_HEADER: asked.rules.form, "content-length": "1"}
    answer = asked.post("/api/runs", content=chunks(), headers=headers)
    assert answer.status_code == 413
    assert "at most 65536 bytes" in answer.json()["error"]


def test_a_finished_run_tells_its_epsilon_with_unit_adversary_and_round(trained, client):
    page = client(trained).get("/run/one").text
    held = next(
        g for g in store.read_json(trained / "one" / "result.json")["guarantees"] if g["threat_model"] == "server"
    )
    assert f"{held['epsilon']:.2f} (against server, one example, delta 1e\u201105, after round 2)" in page


def refusal(capsys, *arguments):
    """Give what the command line says to arguments that it refuses."""
    assert main(["serve", *arguments]) == 2
    return capsys.readouterr().err


def test_bad_addresses_and_folders_are_refused_in_a_sentence(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRADVEIL_TOKEN", raising=False)
    monkeypatch.setattr("gradveil.cli.serve_steps.uvicorn.Server", lambda settings: pytest.fail("it serves"))
    assert "is not a folder" in refusal(capsys, "elsewhere")
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "file").write_text("")
    assert "is not a folder" in refusal(capsys, "file")
    assert "needs --token-file or GRADVEIL_TOKEN" in refusal(capsys, "--host", "0.0.0.0")
    assert "must be 16 to 256 letters" in refusal(capsys, "--token", "short")
    assert "between 1 and 65535" in refusal(capsys, "--port", "0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "cannot listen there" in refusal(capsys, "--port", str(taken.getsockname()[1]))


@pytest.mark.parametrize(
    ("address", "status", "sentence"),
    [
        ("/run/nothing", 404, "there is no run &#39;nothing&#39;"),
        ("/compare?run=one", 400, "choose at least two runs to compare"),
        ("/nowhere", 404, "there is no such page"),
        ("/run/<img src=x>", 404, "there is no run &#39;&lt;img src=x&gt;&#39;"),
    ],
)
def test_a_browser_gets_a_page_for_what_is_refused_and_a_program_the_sentence_alone(
    trained, client, address, status, sentence
):
    asked = client(trained)
    page, text = asked.get(address, headers={"accept": "text/html,*/*;q=0.8"}), asked.get(address)
    assert page.status_code == text.status_code == status
    assert f"<p>{sentence}</p>" in page.text
    assert '<a href="/">Runs</a>' in page.text
    assert "<" not in text.text.replace("<img src=x>", "")
    assert text.text.count("\n") == 1


def test_a_stranger_gets_a_page_that_says_where_the_token_is_and_nothing_of_the_runs(trained, client):
    page = client(trained, enter=False).get("/", headers={"accept": "text/html"})
    assert page.status_code == 401
    assert "a token is needed" in page.text
    assert "/run/" not in page.text
    assert "form-token" not in page.text


def test_methods_that_the_lab_calls_bare_are_rebuilt_as_without_protection_at_any_sigma(trained, client, post):
    asked = client(trained)
    assert "non-private, fed-sdp-client, pruning and dssgd do nothing to the gradient" in asked.get("/lab").text
    given = {"dataset": "digits", "picture": "1", "method": "non-private", "sigma": "6", "attack": "cpl"}
    plain = post(asked, "/api/lab", given).json()
    for changes in ({"method": "fed-sdp-client"}, {"method": "fed-sdp-client", "sigma": "20"}, {"method": "dssgd"}):
        shown = post(asked, "/api/lab", given | changes).json()
        assert shown["bare"]
        assert shown["frames"] == plain["frames"]
    assert not post(asked, "/api/lab", given | {"method": "fed-cdp"}).json()["bare"]
