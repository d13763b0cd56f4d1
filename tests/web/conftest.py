"""Folders with two runs, a client that was let in, a real server and a real browser: shared by the tests of pages."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient

from gradveil.cli.main import main
from gradveil.web.app import make
from gradveil.web.guard import FORM_HEADER, Rules
from gradveil.web.run_processes import Runs

HOST = "127.0.0.1:8765"


@pytest.fixture(scope="session")
def browser():
    """A real browser, which keeps what its console says."""
    from selenium import webdriver  # here: only tests of the suite of browsers need it
    from selenium.webdriver.chrome.service import Service

    place = shutil.which("chromedriver")
    assert place, "Debian's chromium-driver is needed"
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(place))
    yield made
    made.quit()


@pytest.fixture
def driver(browser):
    """The browser as it was started: its own size and colors, and nothing said yet."""
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.get_log("browser")
    return browser


@pytest.fixture(scope="session")
def picture_run():
    """Options of a run of seconds, by their names."""
    return {
        "dataset": "digits", "clients": "6", "cohort": "6", "client-size": "60", "batch": "10", "local-steps": "3",
        "rounds": "3",
    }  # fmt: skip


@pytest.fixture(scope="session")
def runs(picture_run, tmp_path_factory):
    """A folder with a protected and a bare run, both attacked."""
    root = tmp_path_factory.mktemp("runs")
    flags = [part for key, value in picture_run.items() for part in (f"--{key}", value)]
    for method in ("fed-cdp", "non-private"):
        assert main(["run", *flags, "--method", method, "--attack", "--json", "--out", str(root / method)]) == 0
    return root


@pytest.fixture(scope="session")
def address(runs, browser, tmp_path_factory):
    """The address of a real server that has let the browser in by the address that it printed."""
    data = tmp_path_factory.mktemp("data")
    rows = [f"{i % 7},{i % 3},{'yes' if i % 7 > 3 else 'no'}" for i in range(300)]
    (data / "table.csv").write_text("\n".join(["a,b,outcome", *rows]))
    with serving(runs, "--data", str(data)) as (_, port, printed):
        home = f"http://127.0.0.1:{port}"
        browser.get(f"{home}/")
        assert "a token is needed" in browser.page_source
        browser.get(printed)
        assert browser.current_url == f"{home}/"
        assert "<h1>Runs</h1>" in browser.page_source
        browser.get_log("browser")  # the refused request is told there
        yield home


@pytest.fixture(scope="session")
def trained(attacked_runs, tmp_path_factory):
    """A folder with two runs, which tests may change as long as they put it back."""
    root = tmp_path_factory.mktemp("web") / "runs"
    shutil.copytree(attacked_runs, root)
    return root


@pytest.fixture
def client():
    """Give clients of the server of a folder, let in unless `enter` is False."""

    def made(root, rules=None, enter=True):
        rules = rules or Rules(frozenset({HOST}))
        asked = TestClient(make(Runs(root), rules), base_url=f"http://{HOST}", raise_server_exceptions=False)
        asked.rules = rules
        if enter:
            asked.get(f"/?token={rules.token}", follow_redirects=False)
        return asked

    return made


@pytest.fixture
def post():
    """Send a form as a page of the server would."""

    def sent(asked, address, content, **headers):
        held = {FORM_HEADER: asked.rules.form, "origin": f"http://{HOST}"}
        return asked.post(address, json=content, headers=held | headers)

    return sent


@contextmanager
def serving(root, *options, environment=None):
    """Start a real `gradveil serve` and give its process, port and the address that it printed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "gradveil", "serve", str(root), "--port", str(port), *options]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
    try:
        line = server.stderr.readline()
        yield server, port, re.search(r"http://\S+", line).group(0) if "http://" in line else line
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=30)


@pytest.fixture
def served():
    """Start real servers, as a context."""
    return serving
