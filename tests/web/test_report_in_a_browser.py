"""A report as a person opens it from disk, and prints it."""

import json
import re

import pytest
from browsing import PHONE, WIDE, complaints, fits, resize, seen_as, shoot
from selenium.webdriver.common.by import By

from gradveil.cli.main import main

pytestmark = pytest.mark.browser


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
    with seen_as(driver, "dark", WIDE):
        driver.get((runs / "fed-cdp" / "report.html").as_uri())
        paper, ink = (
            driver.execute_script(f"return getComputedStyle(document.body).{name}")
            for name in ("backgroundColor", "color")
        )
        assert sum(map(int, paper[4:-1].split(","))) < 120
        assert sum(map(int, ink[4:-1].split(","))) > 600
        shoot(driver, "report-dark")


def test_a_report_prints_to_pages_of_a_pdf(runs, tmp_path):
    place = tmp_path / "report.html"
    assert main(["report", str(runs / "fed-cdp"), "--pdf", "--out", str(place)]) == 0
    content = place.with_suffix(".pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 12
