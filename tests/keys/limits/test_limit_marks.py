"""A key whose spending passes 80 % or 100 % of its limit is warned of: once for each, in each window."""

from datetime import UTC, date, datetime

import pytest

from billing.models import AccountAlert
from gateway_project.db import pipelined_transaction
from gateway_project.db.pipelined_transaction import Statement
from keys import lifecycle
from keys.limits import limit_marks, spending
from keys.limits.spending import SpendingChange, SpendingWindow
from keys.models import SpendingDay
from keys.spending_limit import SpendingLimit
from tests import chat, factories
from tests.conftest import client_for

CENT = 10_000_000
DAY = date(2026, 1, 31)
TOMORROW = datetime(2026, 2, 1, tzinfo=UTC)

pytestmark = pytest.mark.django_db


@pytest.fixture
def key():
    return factories.make_key(factories.make_account(cents=1_000), limit_cents=10, type="RECURRING", period="DAILY")


def window_of(limit_cents, spent_nanos):
    return SpendingWindow(limit_cents * CENT, spent_nanos, held_nanos=0, first_day=DAY, resets_at=TOMORROW)


def settle(key, window, nanos, day=DAY):
    before, told = window.spent_nanos, set(AccountAlert.objects.all())
    window.settle(SpendingChange(key.pk, day, 0, spent_nanos=nanos))
    if passed := limit_marks.find_passed(key, window, before):
        pipelined_transaction.execute(Statement(limit_marks.TELL_KEYS, passed))
    return sorted((each.data["percent"], each.kind) for each in set(AccountAlert.objects.all()) - told)


def test_each_mark_is_told_when_it_is_reached_to_the_nanodollar(key):
    window = window_of(10, 0)
    told = [settle(key[0], window, nanos) for nanos in (8 * CENT - 1, 1, CENT, CENT - 1, 1, 0)]
    assert told == [[], [(80, "KEY_NEAR_LIMIT")], [], [], [(100, "KEY_AT_LIMIT")], []]


def test_who_passes_both_marks_at_once_is_told_of_both(key):
    assert settle(key[0], window_of(10, 0), 10 * CENT) == [(80, "KEY_NEAR_LIMIT"), (100, "KEY_AT_LIMIT")]


def test_what_was_spent_of_an_earlier_window_does_not_count(key):
    assert settle(key[0], window_of(10, 7 * CENT), 3 * CENT, day=date(2026, 1, 30)) == []


@pytest.mark.parametrize(
    ("limit_cents", "told"), [(20, [(80, "KEY_NEAR_LIMIT")]), (15, []), (5, []), (0, []), (16, [(100, "KEY_AT_LIMIT")])]
)
def test_another_limit_is_told_when_its_own_marks_are_passed(key, limit_cents, told):
    assert settle(key[0], window_of(limit_cents, 15 * CENT), CENT) == told


def test_the_facts_are_those_of_the_moment(key):
    settle(key[0], window_of(10, 0), 9 * CENT)
    alert = AccountAlert.objects.get()
    assert alert.account_id == key[0].account_id
    assert alert.data == {
        "key_id": key[0].pk,
        "key_name": "test",
        "percent": 80,
        "limit_nanos": 10 * CENT,
        "spent_nanos": 9 * CENT,
        "period": "DAILY",
        "resets_at": "2026-02-01T00:00:00+00:00",
    }


def bring_below_the_mark(key):
    """Let the key have spent all but a nanodollar of the first mark."""
    [window] = spending.read_windows([key]).values()
    more = window.limit_nanos * 80 // 100 - 1 - window.spent_nanos
    day, _ = SpendingDay.objects.get_or_create(key=key, day=window.first_day)
    SpendingDay.objects.filter(pk=day.pk).update(spent_nanos=day.spent_nanos + more)


def warned():
    return list(AccountAlert.objects.values_list("kind", "data__key_id"))


def test_a_completion_that_takes_its_key_past_a_mark_is_told(key, echo_model):
    bring_below_the_mark(key[0])
    assert chat.send(client_for(key[1]), chat.body(max_tokens=1)).status_code == 200
    assert warned() == [("KEY_NEAR_LIMIT", key[0].pk)]


def test_a_limit_that_was_set_while_the_request_ran_counts(echo_model):
    key, secret = factories.make_key(factories.make_account(cents=1_000))
    reply = chat.send(client_for(secret), chat.body(max_tokens=1, stream=True))
    lifecycle.set_spending_limit(key, SpendingLimit(10, "FIXED"))
    key.refresh_from_db()
    SpendingDay.objects.update(spent_nanos=8 * CENT - 1)
    assert reply.getvalue()
    assert warned() == [("KEY_NEAR_LIMIT", key.pk)]
