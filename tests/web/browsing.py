"""What a person does with a page in a real browser: look, type, wait; and what axe-core says of it."""

from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

SHOTS = Path(__file__).parents[2] / "artifacts" / "screenshots"
WIDE, PHONE = (1280, 900), (390, 844)
AXE = Path(__file__).parent / "axe" / "node_modules" / "axe-core" / "axe.min.js"


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
