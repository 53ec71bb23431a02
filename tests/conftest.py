"""The cast, and how tests speak to the gateway.

alice has $10 of credit and a key; bob has a key and nothing else; charlie has an account of his own and is nobody here.
"""

from typing import Any

import hypothesis
import pytest
from django.db import connection
from rest_framework.test import APIClient

from billing.models import Account
from tests import factories

# The same examples every time, however slow the machine.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    # Transactional tests end with a TRUNCATE of every table, which this trigger refuses, as it should. One test puts it
    # back and proves it.
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE billing_ledgerentry DISABLE TRIGGER entries_are_never_truncated")


@pytest.fixture(autouse=True)
def _cheap_passwords(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the real one takes a fifth of a second


@pytest.fixture
def alice(db: None) -> Account:
    return factories.make_account("Alice", cents=1000, owner=factories.make_user("alice@example.org"))


@pytest.fixture
def bob(db: None) -> Account:
    return factories.make_account("Bob", owner=factories.make_user("bob@example.org"))


@pytest.fixture
def charlie(db: None) -> Account:
    return factories.make_account("Charlie", cents=1000, owner=factories.make_user("charlie@example.org"))


def client_for(secret: str | None) -> APIClient:
    """A client that speaks JSON with this API key."""
    client = APIClient(raise_request_exception=False)
    client.default_format = "json"  # type: ignore[attr-defined]
    if secret:
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client


@pytest.fixture
def api(alice: Account) -> APIClient:
    """Alice's program."""
    return client_for(factories.make_key(alice)[1])


@pytest.fixture
def echo_model(db: None) -> Any:
    return factories.make_model("demo/echo")
