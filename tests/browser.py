"""A real Chromium for tests of pages, and what they ask of a page in it."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from tests import factories

PHONE = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_INSTALL = "no Chromium on the PATH; install it with `apt-get install chromium`, or your system's package of Chromium or Chrome"


@contextmanager
def chromium() -> Iterator[Any]:
    """The machine's own Chromium, for one test.

    Playwright keeps an event loop running in the test's thread as long as it lives. In its sight Django opens another
    connection, which must be gone, and the loop with it, before the test's rows are deleted.
    """
    found = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
    if found is None:
        assert os.environ.get("CI") != "true", _INSTALL
        pytest.skip(_INSTALL)
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=15_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=_ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()
            connections.close_all()


@pytest.fixture
def open_page(transactional_db: None, live_server: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page in a browser of its own: ``open_page(java_script_enabled=False, color_scheme="dark", ...)``.

    A message in the browser's console (a refused script or style, a missing file) fails the test.
    """
    complaints: list[str] = []
    with chromium() as browser:

        def open_one(**options: Any) -> Any:
            page = browser.new_context(base_url=live_server.url, **options).new_page()
            page.set_default_timeout(15_000)
            page.on("console", lambda message: message.type in ("error", "warning") and complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            return page

        yield open_one
    assert complaints == []


def sign_in(page: Any, email: str, path: str = "/dashboard/") -> None:
    page.goto(path)
    page.get_by_label("mail").fill(email)
    page.get_by_label("Password").fill(factories.PASSWORD)
    page.get_by_role("button", name="Sign in").or_(page.get_by_role("button", name="Log in")).click()
    page.wait_for_url(path)


def picture(page, name):
    """Save a screenshot into the directory GATEWAY_PICTURES, if it is set."""
    if os.environ.get("GATEWAY_PICTURES"):
        page.screenshot(path=Path(os.environ["GATEWAY_PICTURES"]) / f"{name}.png", full_page=True)


def fits(page):
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
