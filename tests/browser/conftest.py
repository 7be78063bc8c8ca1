"""A real Chromium. Tests wait for what they expect and never sleep."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from benchmarks.browser import ALL_DRAWN, ROOT, chromium, serve

PATIENCE = 60_000  # milliseconds an expectation may take on a busy machine
expect.set_options(timeout=PATIENCE)

# Streamlit looks for its own service below the page's path first, and is answered 404.
KNOWN = re.compile(r"/_stcore/(health|host-config)")


@pytest.fixture(scope="session")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def lab():
    """Address of the lab."""
    with serve(ROOT / "app.py") as address:
        yield address


@pytest.fixture(scope="session")
def demo_lab():
    """Address of the page that shows all the platform can do, and of nothing else."""
    with serve(Path(__file__).parent / "fixture_app.py") as address:
        yield address


class Visitor:
    """Opens pages as one person would, each in a private window, and notes what must not happen."""

    def __init__(self, browser):
        self._browser = browser
        self._contexts = []
        self.wrong: list[str] = []

    def open(self, address, *, dark=False, width=1280, height=900, wait=True, **context):
        """A page in a private window, every chart drawn."""
        window = self._browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            accept_downloads=True,
            **context,
        )
        window.set_default_timeout(PATIENCE)
        self._contexts.append(window)
        page = window.new_page()
        home = re.match(r"https?://[^/]+", address)
        page.on("pageerror", lambda e: self.wrong.append(f"script error: {e}"))
        page.on("console", self._console)
        page.on(
            "request",
            lambda r: (
                None
                if r.url.startswith(
                    (home[0] if home else "file:", "data:", "blob:", "file:", "ws:")
                )
                else self.wrong.append(f"foreign request: {r.url}")
            ),
        )
        page.goto(address)
        if wait:
            drawn(page)
        return page

    def _console(self, message):
        if message.type == "error" and not KNOWN.search(message.location.get("url", "")):
            self.wrong.append(f"console: {message.text} {message.location.get('url', '')}".strip())

    def close(self):
        for window in self._contexts:
            window.close()


def drawn(page):
    """Wait until the script has ended and every chart stands on the screen."""
    page.wait_for_function(ALL_DRAWN)
    return page


@pytest.fixture
def visitor(browser):
    """Opens pages; fails the test on script errors, console errors and requests to other hosts."""
    visitor = Visitor(browser)
    yield visitor
    visitor.close()
    assert not visitor.wrong


@pytest.fixture
def demo(visitor, demo_lab):
    return visitor.open(f"{demo_lab}/demo")
