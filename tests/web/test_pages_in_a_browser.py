"""The pages as a person sees them: a real browser on a real server, wide and phone-sized."""

import json
import re
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from gradveil.cli.main import main

pytestmark = pytest.mark.browser
SHOTS = Path(__file__).parents[2] / "artifacts" / "screenshots"
WIDE, PHONE = (1280, 900), (390, 844)
AXE = Path(__file__).parent / "axe" / "node_modules" / "axe-core" / "axe.min.js"
SMALL = {
    "dataset": "digits", "clients": "6", "cohort": "6", "client-size": "60", "batch": "10", "local-steps": "3",
    "rounds": "3",
}  # fmt: skip


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
    (runs.parent / "data").mkdir(exist_ok=True)
    rows = [f"{i % 7},{i % 3},{'yes' if i % 7 > 3 else 'no'}" for i in range(300)]
    (runs.parent / "data" / "table.csv").write_text("\n".join(["a,b,outcome", *rows]))
    own = ["--data", str(runs.parent / "data")]
    command = [sys.executable, "-m", "gradveil", "serve", str(runs), "--port", str(port), *own]
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


def value(driver, name):
    return driver.find_element(By.ID, name).get_property("value")


def fill(driver, name, content):
    """Type into a field, or choose from its list, as a person would."""
    field = driver.find_element(By.ID, name)
    if field.tag_name == "select":
        Select(field).select_by_visible_text(content)
    else:
        field.send_keys(Keys.CONTROL + "a")  # clear() would leave the field, which then gets its preset back
        field.send_keys(Keys.BACKSPACE, content)


def findings(driver, *impacts):
    """Give what axe-core finds on the page as it is now, of the given impacts or of any."""
    driver.execute_script(AXE.read_text())
    found = driver.execute_async_script(
        "const done = arguments[0];"
        "axe.run({resultTypes: ['violations']}).then((told) => done(told.violations.map((v) =>"
        "({impact: v.impact, rule: v.id, where: v.nodes.map((n) => n.html.slice(0, 200))}))))"
    )
    return [one for one in found if not impacts or one["impact"] in impacts]


@contextmanager
def seen_as(driver, scheme, size):
    """Show pages in a colour scheme and a size."""
    resize(driver, size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


ADDRESSES = ["/", "/new", "/lab", "/run/fed-cdp", "/report/non-private", "/compare?run=fed-cdp&run=non-private"]


def ready(driver, place):
    """Wait until a page has said what it has to say."""
    if place == "/new":
        until(driver, lambda d: "epsilon" in text(d, "cost"))
    if place.startswith("/run/"):
        until(driver, lambda d: d.find_elements(By.CSS_SELECTOR, "#report .verdict"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("place", ADDRESSES)
def test_axe_finds_nothing_on_any_page_and_nothing_sticks_out(driver, address, place, size, scheme):
    with seen_as(driver, scheme, size):
        driver.get(address + place)
        ready(driver, place)
        assert findings(driver) == []
        assert fits(driver)


def test_axe_finds_what_is_wrong_on_a_page_that_was_made_so(driver, address):
    driver.get(address + "/new")
    driver.execute_script("document.querySelector('label[for=rounds]').remove()")
    assert [one["rule"] for one in findings(driver, "critical")] == ["label"]


def test_runs_are_filtered_and_sorted_by_mouse_and_by_keyboard(driver, address):
    resize(driver, WIDE)
    driver.get(address)

    def names():
        return [
            row.get_attribute("data-name")
            for row in driver.find_elements(By.CSS_SELECTOR, "#runs tbody tr")
            if row.is_displayed()
        ]

    everything = set(names())
    assert {"fed-cdp", "non-private"} <= everything
    fill(driver, "words", "digits cdp")
    assert set(names()) == {name for name in everything if name != "non-private"}
    assert "of" in text(driver, "count")
    fill(driver, "words", "")
    fill(driver, "method", "non-private")
    assert names() == ["non-private"]
    fill(driver, "method", "any")
    head = driver.find_element(By.CSS_SELECTOR, "#runs th[data-key=name]")
    head.find_element(By.TAG_NAME, "button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert names() == sorted(names())
    head.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "descending"
    assert names() == sorted(names(), reverse=True)
    driver.find_element(By.CSS_SELECTOR, "#runs th[data-key=epsilon] button").click()
    assert names()[-1] == "non-private"  # no finite epsilon is more than any
    resize(driver, PHONE)
    fill(driver, "order", "accuracy")
    accuracies = [row.get_attribute("data-accuracy") for row in driver.find_elements(By.CSS_SELECTOR, "#runs tbody tr")]
    assert list(map(float, accuracies)) == sorted(map(float, accuracies), reverse=True)
    assert len(driver.find_elements(By.CSS_SELECTOR, "#runs .spark")) >= 2
    assert "server, one example" in driver.find_element(By.ID, "runs").text
    labels = driver.execute_script(
        "return [...document.querySelectorAll('#runs tbody tr:first-child td')]"
        ".map((cell) => getComputedStyle(cell, '::before').content)"
    )
    assert {'"accuracy"', '"epsilon"', '"started"'} <= set(labels)
    shoot(driver, "runs-phone")
    assert complaints(driver) == []


def test_the_form_shows_the_preset_and_says_what_the_plan_costs_as_one_types(driver, address):
    resize(driver, WIDE)
    driver.get(address + "/new")
    until(driver, lambda d: "This plan costs epsilon" in text(d, "cost"))
    assert (value(driver, "rounds"), value(driver, "sigma"), value(driver, "sampling")) == ("100", "7", "poisson")
    before = text(driver, "cost")
    fill(driver, "rounds", "20")
    until(driver, lambda d: "costs epsilon" in text(d, "cost") and text(d, "cost") != before)
    assert "changed" in driver.find_element(By.ID, "rounds").get_attribute("class")
    until(driver, lambda d: "minute" in text(d, "duration"))
    shoot(driver, "new-changed")
    fill(driver, "method", "non-private")
    until(driver, lambda d: "no finite epsilon" in text(d, "cost"))
    assert (value(driver, "sigma"), value(driver, "rounds")) == ("", "20")
    fill(driver, "method", "fed-cdp")
    fill(driver, "rounds", Keys.TAB)
    until(driver, lambda d: value(d, "rounds") == "100")
    assert text(driver, "cost") == before
    fill(driver, "own", "table.csv")
    fill(driver, "target", "outcome")
    until(driver, lambda d: value(d, "clients") == "2")
    assert complaints(driver) == [] or all("400" in line["message"] for line in complaints(driver))
    driver.get_log("browser")


@pytest.mark.parametrize(("name", "size"), [("wide", WIDE), ("phone", PHONE)])
def test_a_report_opens_from_disk_with_its_gallery_and_numbers(driver, runs, name, size):
    resize(driver, size)
    driver.get((runs / "non-private" / "report.html").as_uri())
    body = driver.find_element(By.TAG_NAME, "body").text
    result = json.loads((runs / "non-private" / "result.json").read_text())
    assert f"{result['accuracy']:.0%}" in body
    assert "no finite epsilon" in body.lower()
    pictures = [p for p in driver.find_elements(By.CSS_SELECTOR, ".gallery img") if p.is_displayed()]
    assert len(pictures) >= 9  # the truth, what was recovered and a blind guess, of three victims at least
    assert all(p.get_property("naturalWidth") == 8 and p.get_attribute("alt") for p in pictures)
    assert all(p.size["width"] >= 80 for p in pictures)
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
    until(driver, lambda d: "epsilon" in text(d, "cost"))
    for key, content in {**SMALL, "rounds": "40", "max-epsilon": "200", "name": "from-the-page"}.items():
        fill(driver, key, content)
    driver.find_element(By.CSS_SELECTOR, "#new-run button[type=submit]").click()
    until(driver, lambda d: d.current_url.endswith("/run/from-the-page"))
    until(driver, lambda d: d.find_elements(By.CSS_SELECTOR, "#spending polyline"))
    assert driver.find_elements(By.CSS_SELECTOR, "#spending .level")  # the budget
    assert driver.find_elements(By.CSS_SELECTOR, "#noise polyline")
    shoot(driver, "live")
    until(driver, lambda d: text(d, "state") == "finished")
    assert text(driver, "done") == "40"
    assert 0 <= float(text(driver, "accuracy")) <= 1
    assert float(text(driver, "epsilon").split()[0]) > 0
    assert "one example" in text(driver, "epsilon")
    assert len(driver.find_element(By.CSS_SELECTOR, "#curve polyline").get_attribute("points").split()) == 40
    # The whole report stands in the page when the run is over.
    until(driver, lambda d: "Reproduce this run" in text(d, "report"))
    assert "What is guaranteed" in text(driver, "report")
    assert "most frequent class" in text(driver, "report")
    assert not driver.find_element(By.ID, "charts").is_displayed()
    shoot(driver, "finished")
    driver.get(address)
    for name in ("from-the-page", "non-private"):
        driver.find_element(By.CSS_SELECTOR, f'input[value="{name}"]').click()
    shoot(driver, "runs")
    driver.find_element(By.ID, "compare").click()
    until(driver, lambda d: "Side by side" in d.page_source)
    heads = [cell.text for cell in driver.find_elements(By.CSS_SELECTOR, "thead th")][:2]
    assert heads == ["fed-cdp (from-the-page)", "non-private"]
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
    until(driver, lambda d: "epsilon" in text(d, "cost"))
    fill(driver, "rounds", "0")
    until(driver, lambda d: text(d, "cost") == sentence)
    driver.find_element(By.CSS_SELECTOR, "#new-run button[type=submit]").click()
    until(driver, lambda d: text(d, "error"))
    assert text(driver, "error") == sentence
    shoot(driver, "wrong-phone")
    driver.get_log("browser")  # the refused request is told there


def lab_says(driver, method):
    return driver.find_element(By.CSS_SELECTOR, f"#lab-{method} figcaption").text


def test_the_lab_shows_methods_side_by_side_and_the_slider_adds_noise(driver, address):
    resize(driver, WIDE)
    driver.get(address + "/lab")  # it begins by itself
    until(driver, lambda d: text(d, "lab-says").startswith("Reconstructed nearer"), 300)
    assert lab_says(driver, "non-private").startswith("leaks: error 0.0")
    assert "draws no noise" in lab_says(driver, "non-private")
    assert "sigma 0.03" in lab_says(driver, "fed-cdp")
    shown = driver.find_elements(By.CSS_SELECTOR, "#lab-shows img")
    assert [image.is_displayed() for image in shown] == [True] * 6
    shoot(driver, "lab")
    slider = driver.find_element(By.ID, "sigma")
    for _ in range(5):
        slider.send_keys(Keys.ARROW_RIGHT)
    assert text(driver, "sigma-shown") == "6.0"
    assert slider.get_attribute("aria-valuetext") == "6.0"
    until(driver, lambda d: "sigma 6.0" in lab_says(d, "fed-cdp"), 120)
    assert lab_says(driver, "fed-cdp").startswith("no nearer")
    assert lab_says(driver, "non-private").startswith("leaks")
    driver.find_element(By.CSS_SELECTOR, "input[value=pruning]").click()
    until(driver, lambda d: not d.find_elements(By.ID, "lab-pruning"))
    resize(driver, PHONE)
    assert fits(driver)
    shoot(driver, "lab-phone")
    assert complaints(driver) == []


def test_a_report_prints_to_pages_of_a_pdf(runs, tmp_path):
    place = tmp_path / "report.html"
    assert main(["report", str(runs / "fed-cdp"), "--pdf", "--out", str(place)]) == 0
    content = place.with_suffix(".pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 12
