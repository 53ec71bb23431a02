"""The database refuses violations of alerts and their deliveries. Every constraint has a test, which is named after it."""

from datetime import UTC, datetime

import pytest

from billing.models import Account, AccountAlert, AlertDelivery, WebhookEndpoint
from tests.billing.refused_rows import refused

NOW = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.fixture
def alert(alice):
    return AccountAlert.objects.create(account=alice, kind="BALANCE_LOW", data={})


@pytest.fixture
def endpoint(alice):
    return WebhookEndpoint.objects.create(account=alice, url="https://example.org/", sealed_secret="sealed")


@pytest.mark.parametrize("cents", [0, -1, 10**12])
def test_a_warning_threshold_is_a_positive_amount(alice, cents):
    with refused("a_warning_threshold_is_a_positive_amount"):
        Account.objects.update(warning_threshold_cents=cents)
    Account.objects.update(warning_threshold_cents=None)


def test_a_delivery_has_one_way(alert, endpoint):
    for ways in ({}, {"endpoint": endpoint, "email": "ann@example.org"}):
        with refused("a_delivery_has_one_way"):
            AlertDelivery.objects.create(alert=alert, next_try_at=NOW, **ways)


def test_only_a_waiting_delivery_is_tried(alert, endpoint):
    for state, next_try_at in (("WAITING", None), ("DELIVERED", NOW), ("DEAD", NOW)):
        with refused("only_a_waiting_delivery_is_tried"):
            AlertDelivery.objects.create(alert=alert, endpoint=endpoint, state=state, next_try_at=next_try_at)


def test_a_warning_goes_to_an_endpoint_once(alert, endpoint):
    AlertDelivery.objects.create(alert=alert, endpoint=endpoint, next_try_at=NOW)
    with refused("a_warning_goes_to_an_endpoint_once"):
        AlertDelivery.objects.create(alert=alert, endpoint=endpoint, next_try_at=NOW)


def test_a_warning_is_mailed_to_a_person_once(alert):
    AlertDelivery.objects.create(alert=alert, email="ann@example.org", next_try_at=NOW)
    with refused("a_warning_is_mailed_to_a_person_once"):
        AlertDelivery.objects.create(alert=alert, email="ann@example.org", next_try_at=NOW)
