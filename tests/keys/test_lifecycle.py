"""Issuing, limiting and revoking keys."""

import pytest
from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from billing import money
from keys import lifecycle, secret
from keys.models import ApiKey, SpendingDay
from keys.spending_limit import InvalidLimit, SpendingLimit
from tests import factories

LIMITS = ("spending_limit_cents", "spending_type", "spending_period")

GOOD = [
    (None, None, None),
    (0, "FIXED", None),
    (500, "FIXED", None),
    (500, "RECURRING", "DAILY"),
    (500, "RECURRING", "WEEKLY"),
    (500, "RECURRING", "MONTHLY"),
    (money.CENTS_MAX, "FIXED", None),
]
BAD = [
    (None, "FIXED", None),
    (None, "RECURRING", "DAILY"),
    (None, None, "DAILY"),
    (500, None, None),
    (500, "", None),
    (500, "ONCE", None),
    (500, "fixed", None),
    (500, None, "DAILY"),
    (500, "RECURRING", None),
    (500, "RECURRING", ""),
    (500, "RECURRING", "YEARLY"),
    (500, "FIXED", "DAILY"),
    (-1, "FIXED", None),
    (money.CENTS_MAX + 1, "FIXED", None),
]


def limits(key):
    return ApiKey.objects.values_list(*LIMITS).get(pk=key.pk)


def test_issuing_a_key_does_not_store_its_secret(alice):
    owner = alice.members.get()
    key, minted = lifecycle.issue_key(
        alice, name="build server", created_by=owner, requests_per_minute=60, tokens_per_minute=9_000
    )
    row = ApiKey.objects.get(pk=secret.key_id(minted))
    assert row == key
    assert (row.account, row.name, row.created_by, row.last_four) == (alice, "build server", owner, minted[-4:])
    assert (row.requests_per_minute, row.tokens_per_minute) == (60, 9_000)
    assert row.digest == secret.digest(minted, settings.KEY_PEPPERS[0])
    assert (row.expires_at, row.revoked_at, row.allowed_models) == (None, None, None)


@pytest.mark.parametrize(("limit_cents", "type", "period"), GOOD)
def test_valid_limits_are_accepted(alice, limit_cents, type, period):
    issued, _ = lifecycle.issue_key(alice, name="k", limit=SpendingLimit(limit_cents, type, period))
    limited, _ = factories.make_key(alice)
    lifecycle.set_spending_limit(limited, SpendingLimit(limit_cents, type, period))
    assert limits(issued) == limits(limited) == (limit_cents, type, period)
    assert limited.spending_limit_cents == limit_cents


@pytest.mark.parametrize(("limit_cents", "type", "period"), BAD)
def test_invalid_limits_are_refused(alice, limit_cents, type, period):
    key, _ = factories.make_key(alice, limit_cents=7, type="FIXED")
    with pytest.raises(InvalidLimit):
        lifecycle.set_spending_limit(key, SpendingLimit(limit_cents, type, period))
    with pytest.raises(InvalidLimit):
        lifecycle.issue_key(alice, name="k", limit=SpendingLimit(limit_cents, type, period))
    assert limits(ApiKey.objects.get()) == (7, "FIXED", None)


@pytest.mark.parametrize(("limit_cents", "type", "period"), BAD)
def test_the_database_refuses_invalid_limits_too(alice, limit_cents, type, period):
    key, _ = factories.make_key(alice, limit_cents=7, type="FIXED")
    with pytest.raises(IntegrityError, match="a_limit_|spending_limit_cents"), transaction.atomic():
        ApiKey.objects.filter(pk=key.pk).update(spending_limit_cents=limit_cents, spending_type=type, spending_period=period)
    assert limits(key) == (7, "FIXED", None)


@pytest.mark.parametrize("rate", ["requests_per_minute", "tokens_per_minute"])
def test_the_database_refuses_a_rate_of_zero(alice, rate):
    with pytest.raises(IntegrityError, match="a_rate_is_at_least_one_a_minute"), transaction.atomic():
        factories.make_key(alice, **{rate: 0})


def test_the_database_refuses_two_rows_for_a_key_and_a_day(alice):
    key, _ = factories.make_key(alice)
    SpendingDay.objects.create(key=key, day="2026-11-21")
    with pytest.raises(IntegrityError, match="a_key_has_one_row_a_day"), transaction.atomic():
        SpendingDay.objects.create(key=key, day="2026-11-21")


@pytest.mark.parametrize("field", ["spent_nanos", "held_nanos"])
def test_the_database_refuses_a_negative_day(alice, field):
    key, _ = factories.make_key(alice)
    with pytest.raises(IntegrityError, match="a_day_is_never_negative"), transaction.atomic():
        SpendingDay.objects.create(key=key, day="2026-11-21", **{field: -1})


def test_setting_a_limit_writes_no_other_column(alice):
    key, _ = factories.make_key(alice, requests_per_minute=5)
    stale = ApiKey.objects.get(pk=key.pk)
    ApiKey.objects.filter(pk=key.pk).update(requests_full_at="2026-11-21T00:00:00Z", requests_per_minute=9)
    lifecycle.set_spending_limit(stale, SpendingLimit(5, "FIXED"))
    row = ApiKey.objects.get(pk=key.pk)
    assert (row.requests_per_minute, row.requests_full_at is not None, row.spending_limit_cents) == (9, True, 5)


def test_revoking_twice_keeps_the_first_time_of_revocation(alice):
    key, _ = factories.make_key(alice)
    lifecycle.revoke_key(key)
    first = key.revoked_at
    lifecycle.revoke_key(key)
    lifecycle.revoke_key(ApiKey.objects.get(pk=key.pk))
    assert ApiKey.objects.get(pk=key.pk).revoked_at == key.revoked_at == first is not None


def test_revoking_affects_one_key_only(alice):
    key, _ = factories.make_key(alice)
    other, _ = factories.make_key(alice)
    lifecycle.revoke_key(key)
    assert ApiKey.objects.get(pk=other.pk).revoked_at is None


def test_a_key_is_locked_after_its_account_before_it_is_written(alice):
    key, _ = factories.make_key(alice)
    with CaptureQueriesContext(connection) as captured:
        lifecycle.set_spending_limit(key, SpendingLimit(5, "FIXED"))
    locked = [query["sql"].rpartition(" FOR NO KEY UPDATE OF ") for query in captured]
    tables = [table.strip('"') for _, found, table in locked if found]
    assert tables == ["billing_account", "keys_apikey"]
    assert captured.captured_queries[-2]["sql"].startswith('UPDATE "keys_apikey"')
