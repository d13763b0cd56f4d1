"""The list of runs as a person uses it."""

import pytest
from browsing import PHONE, WIDE, complaints, fill, resize, shoot, text
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.browser


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
