"""The pages as a person sees them: a real browser on a real server, wide and phone-sized."""

import json
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from gradveil.cli.main import main

pytestmark = pytest.mark.browser
SHOTS = Path(__file__).parents[2] / "artifacts" / "screenshots"
WIDE, PHONE = (1280, 900), (390, 844)
SMALL = {
    "dataset": "digits", "clients": "6", "cohort": "6", "client-size": "60", "batch": "10", "local-steps": "3",
    "rounds": "3",
}  # fmt: skip


@pytest.fixture(scope="module")
def driver():
    place = shutil.which("chromedriver")
    assert place, "Debian's chromium-driver is needed"
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(place))
    yield made
    made.quit()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a protected and a bare run, both attacked."""
    root = tmp_path_factory.mktemp("runs")
    flags = [part for key, value in SMALL.items() for part in (f"--{key}", value)]
    for method in ("fed-cdp", "non-private"):
        assert main(["run", *flags, "--method", method, "--attack", "--json", "--out", str(root / method)]) == 0
    return root


@pytest.fixture(scope="module")
def address(runs, driver):
    """The address of a real server that has let the browser in by the address that it printed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "gradveil", "serve", str(runs), "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    printed = re.search(r"http://\S+", server.stderr.readline()).group(0)
    driver.get(f"http://127.0.0.1:{port}/")
    assert "a token is needed" in driver.find_element(By.TAG_NAME, "body").text
    driver.get_log("browser")  # the refused request is told there
    driver.get(printed)
    assert driver.current_url == f"http://127.0.0.1:{port}/"
    assert driver.find_element(By.ID, "runs").is_displayed()
    yield f"http://127.0.0.1:{port}"
    server.terminate()
    server.communicate(timeout=20)


def resize(driver, size):
    wide, high = size
    metrics = {"width": wide, "height": high, "deviceScaleFactor": 1, "mobile": wide < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def shoot(driver, name):
    SHOTS.mkdir(parents=True, exist_ok=True)
    driver.save_screenshot(str(SHOTS / f"{name}.png"))


def fits(driver):
    """Whether nothing sticks out at the side."""
    return driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


def complaints(driver):
    return [
        line for line in driver.get_log("browser") if line["level"] == "SEVERE" and "favicon" not in line["message"]
    ]


def until(driver, condition, seconds=120):
    return WebDriverWait(driver, seconds, poll_frequency=0.2).until(condition)


def text(driver, name):
    return driver.find_element(By.ID, name).text


@pytest.mark.parametrize(("name", "size"), [("wide", WIDE), ("phone", PHONE)])
def test_a_report_opens_from_disk_with_its_gallery_and_numbers(driver, runs, name, size):
    resize(driver, size)
    driver.get((runs / "non-private" / "report.html").as_uri())
    body = driver.find_element(By.TAG_NAME, "body").text
    result = json.loads((runs / "non-private" / "result.json").read_text())
    assert f"{result['accuracy']:.0%}" in body
    assert "no finite epsilon" in body.lower()
    pictures = driver.find_elements(By.CSS_SELECTOR, "figure img")
    assert len(pictures) == 3
    assert all(p.get_property("naturalWidth") > 100 and p.get_attribute("alt") for p in pictures)
    charts = driver.find_elements(By.CSS_SELECTOR, "figure [role=img] svg")
    assert len(charts) >= 2
    assert all(chart.size["width"] > 200 for chart in charts)
    badges = [b.text for b in driver.find_elements(By.CSS_SELECTOR, ".surfaces .badge")]
    assert badges[0] == "leaks"
    assert fits(driver)
    shoot(driver, f"report-{name}")
    assert driver.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert complaints(driver) == []


def test_dark_readers_get_a_dark_page(driver, runs):
    resize(driver, WIDE)
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    try:
        driver.get((runs / "fed-cdp" / "report.html").as_uri())
        paper, ink = (
            driver.execute_script(f"return getComputedStyle(document.body).{name}")
            for name in ("backgroundColor", "color")
        )
        assert sum(map(int, paper[4:-1].split(","))) < 120
        assert sum(map(int, ink[4:-1].split(","))) > 600
        shoot(driver, "report-dark")
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_run_is_started_on_the_page_watched_to_its_end_and_compared(driver, address):
    resize(driver, WIDE)
    driver.get(address + "/new")
    shoot(driver, "new")
    for key, value in {**SMALL, "rounds": "6", "name": "from-the-page"}.items():
        field = driver.find_element(By.ID, key)
        if field.tag_name == "input":
            field.send_keys(value)
    driver.find_element(By.CSS_SELECTOR, "#new-run button[type=submit]").click()
    until(driver, lambda d: d.current_url.endswith("/run/from-the-page"))
    shoot(driver, "live")
    until(driver, lambda d: text(d, "state") == "finished")
    assert text(driver, "done") == "6"
    assert 0 <= float(text(driver, "accuracy")) <= 1
    assert float(text(driver, "epsilon").split()[0]) > 0
    assert "one example" in text(driver, "epsilon")
    until(driver, lambda d: d.find_elements(By.CSS_SELECTOR, "#curve polyline"))
    assert len(driver.find_element(By.CSS_SELECTOR, "#curve polyline").get_attribute("points").split()) == 6
    # The report in the page is made again when the run is over.
    inside = "return document.getElementById('report').contentDocument.body.innerText"
    until(driver, lambda d: "(epsilon 0." in d.execute_script(inside))
    shoot(driver, "finished")
    driver.get(address)
    for name in ("from-the-page", "non-private"):
        driver.find_element(By.CSS_SELECTOR, f'input[value="{name}"]').click()
    shoot(driver, "runs")
    driver.find_element(By.ID, "compare").click()
    until(driver, lambda d: "Side by side" in d.page_source)
    heads = [cell.text for cell in driver.find_elements(By.CSS_SELECTOR, "thead th")][:3]
    assert heads == ["", "fed-cdp (from-the-page)", "non-private"]
    shoot(driver, "compare")
    assert complaints(driver) == []


def test_a_wrong_value_shows_the_sentence_of_the_command_line(driver, address, capsys, tmp_path):
    assert (
        main(["run", "--dataset", "digits", "--method", "fed-cdp", "--rounds", "0", "--out", str(tmp_path / "x")]) == 2
    )
    sentence = capsys.readouterr().err.strip().removeprefix("gradveil: ")
    resize(driver, PHONE)
    driver.get(address + "/new")
    assert fits(driver)
    driver.find_element(By.ID, "rounds").send_keys("0")
    driver.find_element(By.CSS_SELECTOR, "#new-run button[type=submit]").click()
    until(driver, lambda d: text(d, "error"))
    assert text(driver, "error") == sentence
    shoot(driver, "wrong-phone")
    driver.get_log("browser")  # the refused request is told there


def test_the_lab_rebuilds_a_bare_digit_before_ones_eyes(driver, address):
    resize(driver, WIDE)
    driver.get(address + "/lab")
    driver.find_element(By.CSS_SELECTOR, "#lab button[type=submit]").click()
    until(driver, lambda d: d.find_element(By.ID, "lab-shows").is_displayed(), 180)
    first = driver.find_element(By.ID, "lab-frame").get_attribute("src")
    until(driver, lambda d: text(d, "lab-says").startswith("Reconstructed with an error of"), 60)
    assert driver.find_element(By.ID, "lab-frame").get_attribute("src") != first
    assert "nearer than" in text(driver, "lab-says")
    assert "no nearer" not in text(driver, "lab-says")
    shoot(driver, "lab")
    resize(driver, PHONE)
    assert fits(driver)
    shoot(driver, "lab-phone")
    assert complaints(driver) == []
