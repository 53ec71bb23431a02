"""The history of refusals in words, for pages."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from keys.models import RefusalCount
from keys.refusal_history import summaries
from tests import factories
from tests.error_table import ERRORS

NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
THIS_HOUR = NOW.replace(minute=0)


def count(key, hours_ago: int, number: int, *, error: str = "SpendingLimitReached", code: str = "rate_limit_exceeded"):
    hour = THIS_HOUR - timedelta(hours=hours_ago)
    RefusalCount.objects.create(key=key, hour=hour, status=429, code=code, error=error, number=number)


@pytest.mark.parametrize("error", ERRORS)
def test_every_error_has_words(error):
    words = summaries.describe_error(error.__name__)
    assert error.__name__ == "ApiError" or ("description" in vars(error) and " " in words)


@pytest.mark.parametrize("error", ERRORS)
def test_every_error_has_advice(error):
    assert error.__name__ == "ApiError" or summaries.advise(error.__name__).endswith(".")


def test_a_chart_has_the_last_24_hours_and_shows_one_refusal_beside_thousands(alice):
    key, _ = factories.make_key(alice)
    for hours_ago, number in ((0, 1), (23, 10_000), (24, 7)):
        count(key, hours_ago, number)
    chart = summaries.build_chart(key, NOW)
    assert [bar.value for bar in chart.bars] == [10_000, *[0] * 22, 1]
    assert (chart.total, chart.highest.value, chart.bars[-1].at) == (10_001, 10_000, THIS_HOUR)


def test_a_key_that_was_not_refused_has_no_chart(alice):
    assert summaries.build_chart(factories.make_key(alice)[0], NOW) is None


def test_an_account_is_told_why_its_keys_were_refused_the_most_frequent_reason_first(alice, charlie, django_assert_num_queries):
    first, second, others = (
        factories.make_key(account, name)[0] for account, name in ((alice, "a"), (alice, "b"), (charlie, "c"))
    )
    count(first, 0, 5)
    count(first, 3, 5)
    count(second, 1, 30)
    count(second, 1, 1, error="TiedUp")
    count(second, 24, 1_000)
    count(others, 1, 1_000)
    with django_assert_num_queries(1):
        reasons = summaries.sum_by_reason(alice, NOW)
    assert [(reason.words, reason.status, reason.code, reason.number) for reason in reasons] == [
        ("The key's spending limit", 429, "rate_limit_exceeded", 40),
        ("Running requests held the money", 429, "rate_limit_exceeded", 1),
    ]
    assert [(key.name, key.number) for key in reasons[0].keys] == [("b", 30), ("a", 10)]


def test_reading_scans_no_table(alice):
    key, _ = factories.make_key(alice)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    of_account = RefusalCount.objects.filter(key__account=alice, hour__gte=NOW)
    plans = [of_account, key.refusal_counts.filter(hour__gte=NOW), key.refused_requests.order_by("-at")[:50]]
    assert not [plan for rows in plans if "Seq Scan" in (plan := rows.explain())]
