"""A real Chromium for tests of pages, and what they ask of a page in it."""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
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
# Without "preload" axe does not fetch style sheets itself, which it does at wrong addresses.
_AXE_OPTIONS = {"resultTypes": ["violations"], "preload": False}
_INSTALL = "no Chromium on the PATH; install it with `apt-get install chromium`, or your system's package of Chromium or Chrome"


@pytest.fixture(scope="module")
def chromium() -> Iterator["Chromium"]:
    """The machine's own Chromium, for the tests of a module: to start one takes two seconds of processor time."""
    found = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
    if found is None:
        assert os.environ.get("CI") != "true", _INSTALL
        pytest.skip(_INSTALL)
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=15_000)
    with sync_playwright() as playwright:
        shared = Chromium(playwright.chromium.launch(executable_path=found, args=_ARGUMENTS))
        yield shared
        shared.close()


class Chromium:
    """A browser that is used by one test after the other.

    Playwright keeps an event loop running in the test's thread as long as it lives. In its sight Django opens another
    connection, which must be gone, and the loop out of sight, before the test's rows are deleted.
    """

    def __init__(self, browser: Any) -> None:
        self._browser, self._loop = browser, asyncio.get_running_loop()
        asyncio._set_running_loop(None)

    @contextmanager
    def in_use(self) -> Iterator[Any]:
        """Return the browser for one test, and close what the test opened in it."""
        asyncio._set_running_loop(self._loop)
        try:
            yield self._browser
        finally:
            for context in self._browser.contexts:
                context.close()
            connections.close_all()
            asyncio._set_running_loop(None)

    def close(self) -> None:
        asyncio._set_running_loop(self._loop)
        self._browser.close()


@pytest.fixture
def open_page(transactional_db: None, live_server: Any, chromium: Chromium) -> Iterator[Callable[..., Any]]:
    """Opens a page with cookies and a cache of its own: ``open_page(java_script_enabled=False, color_scheme="dark", ...)``.

    A message in the browser's console (a refused script or style, a missing file) fails the test.
    """
    complaints: list[str] = []
    with chromium.in_use() as browser:

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
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url(path)


def picture(page, name):
    """Save a screenshot into the directory GATEWAY_PICTURES, if it is set."""
    if os.environ.get("GATEWAY_PICTURES"):
        page.screenshot(path=Path(os.environ["GATEWAY_PICTURES"]) / f"{name}.png", full_page=True)


def fits(page):
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def violations(page, **options):
    """Return what axe finds on the page that keeps somebody from reading or using it, by all rules if not told otherwise."""
    return Axe().run(page, options={**_AXE_OPTIONS, **options}).response["violations"]
