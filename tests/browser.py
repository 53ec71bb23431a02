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
from django.conf import settings
from django.db import connections
from django.test import Client

from billing.models import User
from tests import sessions

PHONE = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}
DESK_SIZE, PHONE_SIZE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
CONTRAST = {"runOnly": ["color-contrast"]}
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_PATIENCE_MS = 60_000  # of a busy machine; only a test that fails waits for so long
# Without "preload" axe does not fetch style sheets itself, which it does at wrong addresses. Without "selectors", which nobody
# reads, it takes three quarters of the time.
_AXE_OPTIONS = {"resultTypes": ["violations"], "preload": False, "selectors": False}
_RUN_AXE = """async (options) => (await axe.run(options)).violations.map(
  ({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`
)"""
_IDS = "[...document.querySelectorAll('[id]')].map((element) => element.id)"
_SETTLED = """async () => {
  await document.fonts.ready;
  // A transition that a change of the colours replaces is not always told to be finished.
  const patience = new Promise((resolve) => setTimeout(resolve, 5_000));
  await Promise.race([patience, Promise.allSettled(document.getAnimations().map((animation) => animation.finished))]);
}"""
# The shell is Chromium without its windows. A context takes it a fifth of the processor time, and it starts in a third.
_NAMES = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]
_INSTALL = "no Chromium on the PATH; install the package chromium-headless-shell, chromium or google-chrome"
_SHARED = pytest.StashKey["Chromium"]()


@pytest.fixture(scope="session")
def chromium(pytestconfig: pytest.Config) -> "Chromium":
    """The machine's own Chromium, one for all tests of a process: to start one takes two seconds of processor time.

    Each ``conftest`` that imports this fixture has one of its own, and all of them return the same Chromium.
    """
    if _SHARED not in pytestconfig.stash:
        pytestconfig.stash[_SHARED] = _start(pytestconfig)
    return pytestconfig.stash[_SHARED]


def _start(config: pytest.Config) -> "Chromium":
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        assert os.environ.get("CI") != "true", _INSTALL
        pytest.skip(_INSTALL)
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=_PATIENCE_MS)
    playwright = sync_playwright().start()
    shared = Chromium(playwright, playwright.chromium.launch(executable_path=found, args=_ARGUMENTS))
    config.add_cleanup(shared.close)
    return shared


class Chromium:
    """A browser that is used by one test after the other.

    Playwright keeps an event loop running in the test's thread as long as it lives. In its sight Django opens another
    connection, which must be gone, and the loop out of sight, before the test's rows are deleted.
    """

    def __init__(self, playwright: Any, browser: Any) -> None:
        self._playwright, self._browser, self._loop = playwright, browser, asyncio.get_running_loop()
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
        self._playwright.stop()


@pytest.fixture
def open_page(transactional_db: None, live_server: Any, chromium: Chromium) -> Iterator[Callable[..., Any]]:
    """Opens a page with cookies and a cache of its own: ``open_page(java_script_enabled=False, color_scheme="dark", ...)``.

    A message in the browser's console (a refused script or style, a missing file) fails the test.
    """
    complaints: list[str] = []
    with chromium.in_use() as browser:

        def open_one(**options: Any) -> Any:
            page = browser.new_context(base_url=live_server.url, reduced_motion="reduce", **options).new_page()
            page.set_default_timeout(_PATIENCE_MS)
            page.on("console", lambda message: message.type in ("error", "warning") and complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            return page

        yield open_one
    assert complaints == []


def sign_in(page: Any, email: str, path: str = "/dashboard/") -> None:
    """Open a page in a session of somebody who has just given the password, without the page that signs in."""
    client, name = Client(), settings.SESSION_COOKIE_NAME
    sessions.sign_in(client, User.objects.get(email=email))
    page.context.add_cookies([{"name": name, "value": client.cookies[name].value, "domain": "localhost", "path": "/"}])
    page.goto(path)


def settle(page):
    """Wait until the page is loaded and nothing moves in it: what is measured before that depends on the machine.

    A test first waits for something that only the new page shows, as a click does not wait for it.
    """
    page.wait_for_load_state()
    page.evaluate(_SETTLED)


def picture(page, name):
    """Save a screenshot into the directory GATEWAY_PICTURES, if it is set."""
    if os.environ.get("GATEWAY_PICTURES"):
        settle(page)
        page.screenshot(path=Path(os.environ["GATEWAY_PICTURES"]) / f"{name}.png", full_page=True)


def fits(page):
    """Say whether nothing of the page is beyond the right edge of its window."""
    settle(page)
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def violations(page, **options):
    """Return what axe finds on the page that keeps somebody from reading or using it, by all rules if not told otherwise."""
    settle(page)
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    return page.evaluate(_RUN_AXE, {**_AXE_OPTIONS, **options})


def look(page, name):
    """Fail if axe finds a fault of the page, or something is beyond its right edge. Save a picture of it.

    Where scripts are off, axe would wait for its timers for ever.
    """
    picture(page, name)
    has_scripts = page.evaluate("matchMedia('(scripting: enabled)').matches")
    found = violations(page) if has_scripts else []
    assert found == [], f"{name}: {found}"
    assert fits(page), f"{name} is too wide"


def faults(page, name):
    """Return what is wrong with an open page: by all rules of axe, ids that are there twice, what is too wide for a phone."""
    page.set_viewport_size(DESK_SIZE)
    picture(page, f"{name}-desk")
    found, ids = violations(page), page.evaluate(_IDS)
    found += [f"an id twice: {each}" for each in sorted(set(ids)) if ids.count(each) > 1]
    found += [] if fits(page) else ["wider than a desk"]
    page.set_viewport_size(PHONE_SIZE)
    picture(page, f"{name}-phone")
    return found + ([] if fits(page) else ["wider than a phone"])


def faults_in_the_dark(page, name):
    """Return what of an open page has too little contrast in the dark, from which nothing else in the light differs."""
    page.set_viewport_size(DESK_SIZE)
    page.emulate_media(color_scheme="dark")
    picture(page, f"{name}-dark")
    found = violations(page, **CONTRAST)
    page.emulate_media(color_scheme="light")
    return found


def faults_on_a_dark_phone(page, name):
    """Return what axe finds on an open page in the dark, on a desk and on a phone, where other parts show."""
    found = faults_in_the_dark(page, name)
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(PHONE_SIZE)
    picture(page, f"{name}-dark-phone")
    return found + violations(page)


def faults_everywhere(page, name):
    """Return what is wrong with an open page in the light and in the dark, on a desk and on a phone."""
    found = faults(page, name) + faults_on_a_dark_phone(page, name)
    page.emulate_media(color_scheme="light")
    return found


def found_on(page, paths, look):
    """Visit the pages and return what ``look`` finds, by the path of each that has a fault."""
    found = {}
    for path in paths:
        page.goto(path)
        found[path] = look(page, f"look-{path.strip('/').replace('/', '-')[:40]}")
    return {path: faults for path, faults in found.items() if faults}
