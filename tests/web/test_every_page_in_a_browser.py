"""Every page of the server, wide and phone-sized, light and dark: accessible, and nothing sticks out."""

import pytest
from browsing import PHONE, WIDE, findings, fits, seen_as, text, until
from selenium.webdriver.common.by import By

pytestmark = pytest.mark.browser


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
