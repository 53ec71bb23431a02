"""Users of the pages: account owners, and support staff with exactly the permissions they need."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission
from django.contrib.sessions.models import Session
from django.db import connection
from django.db.models import Model
from django.test import Client

from billing.models import (
    Account,
    AccountAlert,
    AlertDelivery,
    CreditRequest,
    Hold,
    Invitation,
    LedgerEntry,
    Membership,
    User,
    WebhookEndpoint,
)
from gateway_project.activity.models import Activity
from keys.models import ApiKey, ManagementKey, SpendingDay
from tests import factories, sessions
from tests.browser import chromium, open_page  # noqa: F401  fixtures

admin.autodiscover()  # as the first page does: some tests go through all pages of the admin

SUPPORT_PERMISSIONS = [
    "billing.view_account",
    "billing.view_ledgerentry",
    "billing.issue_support_credit",
    "billing.view_creditrequest",
    "keys.view_apikey",
    "keys.set_spending_limit",
    "keys.set_rates",
    "keys.revoke_apikey",
    "activity.view_activity",
]


def signed_in(user: User, **options: Any) -> Client:
    """Return a client of the user, who has just given the password."""
    client = Client(**options)
    sessions.sign_in(client, user)
    return client


def owner_of(account: Account) -> User:
    return account.members.get()


def make_staff(email: str, permissions: list[str]) -> User:
    """Create a staff user with permissions through a group, as support is set up; not a superuser."""
    group = Group.objects.create(name=f"permissions of {email}")
    group.permissions.add(*(_permission_ids()[permission] for permission in permissions))
    user = factories.make_user(email, is_staff=True)
    user.groups.add(group)
    return user


@cache
def _permission_ids() -> dict[str, int]:
    """Return the ids of the permissions, which migrations made, by their names with the app's."""
    rows = Permission.objects.values_list("content_type__app_label", "codename", "pk")
    return {f"{app}.{codename}": pk for app, codename, pk in rows}


@pytest.fixture
def stranger() -> Client:
    """A client that is not signed in."""
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
    """A staff user without permissions: the admin opens, but no page in it."""
    return signed_in(make_staff("powerless@example.org", []))


@pytest.fixture
def superuser(db: None) -> Client:
    return signed_in(User.objects.create_superuser("root@example.org", factories.PASSWORD))


@pytest.fixture
def key(alice: Account) -> ApiKey:
    return factories.make_key(alice, "laptop")[0]


_KEPT: list[type[Model]] = [
    *(User, User.groups.through, User.user_permissions.through, Group, Group.permissions.through),
    *(Account, Membership, Invitation, LedgerEntry, CreditRequest, Hold, ApiKey, ManagementKey, SpendingDay, Activity),
    *(AccountAlert, WebhookEndpoint, AlertDelivery),
]
_ROWS = " UNION ALL ".join(
    f"SELECT '{model.__name__}', jsonb_agg(each ORDER BY {model._meta.pk.column})::text FROM {model._meta.db_table} AS each"
    " HAVING count(*) > 0"
    for model in _KEPT
)


@pytest.fixture
def rows() -> Callable[[], dict[str, list[Any]]]:
    """Return every row that a page could write, except sign-in times, to compare before and after."""

    def read() -> dict[str, list[Any]]:
        with connection.cursor() as cursor:  # one statement: many tests read all this twice
            cursor.execute(_ROWS)
            found = {model.__name__: [] for model in _KEPT} | {name: json.loads(each) for name, each in cursor.fetchall()}
        for user in found["User"]:
            del user["last_login"]
        return found

    return read


def session_texts() -> str:
    """Return the decoded content of all sessions."""
    return str([session.get_decoded() for session in Session.objects.all()])
