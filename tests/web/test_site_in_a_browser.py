"""The site's leak lab and epsilon calculator in a real browser, opened from disk as the built pages are."""

import re
import shutil
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from tools.site import epsilon_table, leak_frames

from gradveil.accounting.tight import gaussian_epsilon

pytestmark = pytest.mark.browser
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The two pages with their scripts: the HTML that stands in their Markdown, without the theme around it."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS / "_static", folder / "_static")
    for name in ("leak-lab", "epsilon-calculator"):
        html = "\n".join(re.findall(r"^<(?:div|script).*$", (DOCS / f"{name}.md").read_text(), re.MULTILINE))
        head = '<!doctype html><html lang="en"><title>site</title><link rel="stylesheet" href="_static/site.css">'
        (folder / f"{name}.html").write_text(f"{head}<body>{html}</body></html>")
    return folder


def opened(driver, site, name):
    driver.get((site / f"{name}.html").as_uri())
    assert [line for line in driver.get_log("browser") if line["level"] == "SEVERE"] == []


def find(driver, name):
    return driver.find_element(By.ID, name)


def choose(driver, name, value):
    """Choose from a list by typing."""
    field = find(driver, name)
    field.send_keys(value)
    assert field.get_property("value") == value


def slide(driver, name, place):
    """Move a slider to a place by the keyboard."""
    slider = find(driver, name)
    slider.send_keys(Keys.HOME, *[Keys.ARROW_RIGHT] * place)
    assert slider.get_property("value") == str(place)


def shown(driver):
    rows = driver.find_elements(By.CSS_SELECTOR, "#calc-rows tr")
    return {r.find_element(By.TAG_NAME, "th").text: r.find_element(By.CLASS_NAME, "gv-number").text for r in rows}


@pytest.mark.parametrize("method", epsilon_table.GRIDS)
def test_the_calculator_shows_the_entry_of_the_sliders(driver, site, method):
    opened(driver, site, "epsilon-calculator")
    choose(driver, "calc-method", method)
    grid = epsilon_table.GRIDS[method]
    places = {axis.name: place for axis, place in zip(grid.axes, (4, 3, 2, 1, 0), strict=False)}
    for name, place in places.items():
        slide(driver, f"calc-{name}", place)
    expected = epsilon_table.entries(grid, {a.name: a.values[places[a.name]] for a in grid.axes})
    assert shown(driver) == {t: "none" if e is None else f"{e:g}" for t, e in expected.items()}
    assert f"--sigma {grid.axes[0].values[4]:g} " in find(driver, "calc-command").text


@pytest.mark.parametrize(
    ("sigma", "rounds", "clients", "delta"), [(17, 10, 100, 1e-5), (1, 400, 1, 1e-9), (300, 1, 10, 1e-3)]
)
def test_the_closed_form_of_the_page_is_that_of_the_package(driver, site, sigma, rounds, clients, delta):
    opened(driver, site, "epsilon-calculator")
    choose(driver, "calc-method", "fed-sum")
    for name, value in (("sigma", sigma), ("rounds", rounds), ("clients", clients), ("delta", delta)):
        find(driver, f"calc-{name}").clear()
        find(driver, f"calc-{name}").send_keys(f"{value:.12f}".rstrip("0").rstrip("."))
    epsilons = shown(driver)
    server = epsilon_table.rounded_up(gaussian_epsilon(rounds**0.5 / sigma, delta))
    pooled = epsilon_table.rounded_up(gaussian_epsilon((rounds / clients) ** 0.5 / sigma, delta))
    assert {t: float(e) for t, e in epsilons.items()} == {
        t: pooled if t in ("central", "central-visible", "aggregate") else server for t in epsilon_table.THREATS
    }


def test_a_number_that_makes_no_sense_gives_a_sentence_and_no_epsilon(driver, site):
    opened(driver, site, "epsilon-calculator")
    choose(driver, "calc-method", "fed-sum")
    find(driver, "calc-sigma").send_keys(*[Keys.BACKSPACE, Keys.DELETE] * 4)
    assert shown(driver) == {}
    assert "out of its range" in find(driver, "calc-said").text


def pixels(driver, name):
    """Read the pictures of a row back, a hexadecimal digit a pixel."""
    script = """return [...document.querySelectorAll(`#${arguments[0]} canvas`)].map((canvas) => {
        const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return [...data].filter((_, i) => i % 4 === 0).map((gray) => (gray / 17).toString(16)).join("");
    });"""
    return driver.execute_script(script, name)


def test_the_lab_draws_the_frame_of_the_sliders(driver, site):
    opened(driver, site, "leak-lab")
    choose(driver, "lab-method", "fed-cdp")
    slide(driver, "lab-sigma", 1)
    slide(driver, "lab-batch", 1)
    (one,) = [
        leak
        for leak in leak_frames.known()
        if (leak["method"], leak["sigma"], leak["batch"]) == ("fed-cdp", leak_frames.SIGMAS[1], leak_frames.BATCHES[1])
    ]
    assert pixels(driver, "lab-truth") == one["truth"]
    assert pixels(driver, "lab-guess") == one["frames"][-1]
    assert pixels(driver, "lab-prior") == [one["prior"]]
    slide(driver, "lab-moment", 0)
    assert pixels(driver, "lab-guess") == one["frames"][0]
    assert f"{one['error']:.3f}" in find(driver, "lab-said").text


def test_without_noise_there_is_no_noise_to_choose(driver, site):
    opened(driver, site, "leak-lab")
    assert find(driver, "lab-method").get_property("value") == "non-private"
    assert not find(driver, "lab-sigma").is_enabled()
    assert "leak" in find(driver, "lab-said").text


@pytest.mark.parametrize("name", ["leak-lab", "epsilon-calculator"])
def test_nothing_sticks_out_on_a_phone(driver, site, name):
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    opened(driver, site, name)
    assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
