"""A page as a PDF, printed by the browser that is installed."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from gradveil.errors import BadInput
from gradveil.runs import store

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SECONDS = 120
"""The most that printing may take."""


def browser() -> str:
    """Return the browser that prints; BadInput if there is none."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        raise BadInput(f"pdf: needs a browser that prints, and none of {', '.join(BROWSERS)} is installed")
    return program


def print_page(page: Path, place: Path, owner_only: bool = False) -> Path:
    """Print an HTML file; the PDF appears whole or not at all."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "page.pdf"
        root = ["--no-sandbox"] if os.geteuid() == 0 else []  # which chromium refuses to work without; the page is ours
        command = [
            browser(), "--headless", "--disable-gpu", "--disable-dev-shm-usage", *root,
            f"--user-data-dir={folder}/profile", "--no-pdf-header-footer", f"--print-to-pdf={made}",
            page.resolve().as_uri(),
        ]  # fmt: skip
        try:
            subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BadInput(f"pdf: the browser did not print {str(page)!r} ({type(error).__name__})") from None
        if not made.exists():
            raise BadInput(f"pdf: the browser did not print {str(page)!r}")
        store.write(place, made.read_bytes(), owner_only=owner_only)
    return place
