"""The form of a new run as a person fills it, and the run as it happens."""

import pytest
from browsing import PHONE, WIDE, complaints, fill, fits, resize, shoot, text, until, value
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from gradveil.cli.main import main

pytestmark = pytest.mark.browser


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


def test_a_run_is_started_on_the_page_watched_to_its_end_and_compared(driver, address, picture_run):
    resize(driver, WIDE)
    driver.get(address + "/new")
    shoot(driver, "new")
    until(driver, lambda d: "epsilon" in text(d, "cost"))
    for key, content in {**picture_run, "rounds": "40", "max-epsilon": "200", "name": "from-the-page"}.items():
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
