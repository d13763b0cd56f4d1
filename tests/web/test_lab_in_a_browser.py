"""The leak lab of the server as a person uses it."""

import pytest
from browsing import PHONE, WIDE, complaints, fits, resize, shoot, text, until
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.browser


def lab_says(driver, method):
    return driver.find_element(By.CSS_SELECTOR, f"#lab-{method} figcaption").text


def test_the_lab_shows_methods_side_by_side_and_the_slider_adds_noise(driver, address):
    resize(driver, WIDE)
    driver.get(address + "/lab")  # it begins by itself
    until(driver, lambda d: text(d, "lab-says").startswith("Reconstructed nearer"), 300)
    assert lab_says(driver, "non-private").startswith("leaks: error 0.0")
    assert "bare: nothing is done" in lab_says(driver, "non-private")
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
    driver.find_element(By.CSS_SELECTOR, "input[value=fed-sdp-client]").click()
    until(driver, lambda d: "bare" in lab_says(d, "fed-sdp-client"))
    resize(driver, PHONE)
    assert fits(driver)
    shoot(driver, "lab-phone")
    assert complaints(driver) == []
