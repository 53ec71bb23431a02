"""Readers of pages: owners, support staff with exactly the permissions they need, and a real browser."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission
from django.contrib.sessions.models import Session
from django.db import connections
from django.db.models import Model
from django.test import Client

from billing.models import Account, Hold, LedgerEntry, Membership, User
from keys.models import ApiKey, SpendingDay
from tests import factories

SUPPORT_PERMISSIONS = [
    "billing.view_account",
    "billing.view_ledgerentry",
    "billing.issue_support_credit",
    "keys.view_apikey",
    "keys.set_spending_limit",
    "keys.revoke_apikey",
]


@pytest.fixture(autouse=True)
def _quick_passwords(settings: Any) -> None:
    """Made to be slow, the real hasher would take most of the time of these tests."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def owner_of(account: Account) -> User:
    return account.members.get()


def make_staff(email: str, permissions: list[str]) -> User:
    """Staff through a group, as support is set up; not a superuser."""
    group = Group.objects.create(name=f"permissions of {email}")
    for permission in permissions:
        app, _, codename = permission.partition(".")
        group.permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    user = factories.make_user(email, is_staff=True)
    user.groups.add(group)
    return user


@pytest.fixture
def stranger() -> Client:
    """Nobody: not signed in."""
    return Client()


@pytest.fixture
def owner(alice: Account) -> Client:
    return signed_in(owner_of(alice))


@pytest.fixture
def other_owner(charlie: Account) -> Client:
    return signed_in(owner_of(charlie))


@pytest.fixture
def support_user(db: None) -> User:
    return make_staff("support@example.org", SUPPORT_PERMISSIONS)


@pytest.fixture
def support(support_user: User) -> Client:
    return signed_in(support_user)


@pytest.fixture
def powerless(db: None) -> Client:
    """Staff who may enter the admin and nothing in it."""
    return signed_in(make_staff("powerless@example.org", []))


@pytest.fixture
def superuser(db: None) -> Client:
    return signed_in(User.objects.create_superuser("root@example.org", factories.PASSWORD))


@pytest.fixture
def key(alice: Account) -> ApiKey:
    return factories.make_key(alice, "laptop")[0]


_KEPT: list[type[Model]] = [User, Account, Membership, LedgerEntry, Hold, ApiKey, SpendingDay, LogEntry]


@pytest.fixture
def rows() -> Callable[[], dict[str, list[Any]]]:
    """Every row that a page could have written, but for sign-in times: compare before and after."""

    def read() -> dict[str, list[Any]]:
        kept = {model.__name__: list(model.objects.order_by("pk").values()) for model in _KEPT}
        for user in kept["User"]:
            del user["last_login"]
        return kept

    return read


def session_texts() -> str:
    """Everything that sessions hold, in clear."""
    return str([session.get_decoded() for session in Session.objects.all()])


# --- A real browser ----------------------------------------------------------------------------------------------

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
    connection, which must be gone, and the loop with it, before the test's rows are cleared away.
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
