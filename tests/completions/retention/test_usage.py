"""Sums of usage are dropped after a time, and the audit compares only those that are kept."""

from datetime import timedelta

from billing.ledger import audit
from billing.models import RetentionMark
from completions import tasks
from completions.models import LabelDay, LabelHour, UsageHour
from completions.retention import usage
from completions.usage import sums
from gateway_project.db import pool
from tests import chat

DAY = timedelta(days=1)


def test_old_sums_are_dropped_and_the_rest_still_verifies(alice, api, echo_model, settings):
    chat.ask(api, user="u")
    tasks.sum_up_usage()
    LabelDay.objects.create(
        account=alice, name="", value="u", day=pool.database_time().date(), **dict.fromkeys(sums.COLUMNS, 0)
    )
    assert tasks.drop_old_usage() == 0  # no time is set
    settings.RETENTION_USAGE_DAYS = 62
    now = pool.database_time()
    assert usage.drop_old(now + 62 * DAY) == 0
    assert usage.drop_old(now + 63 * DAY) == 2
    assert not UsageHour.objects.exists()
    assert not LabelDay.objects.exists()
    assert RetentionMark.objects.get().since == (now + DAY).date()
    LabelHour.objects.all().delete()
    assert audit.verify() == []
    settings.RETENTION_USAGE_DAYS = 100
    usage.drop_old(now + 63 * DAY)
    assert RetentionMark.objects.get().since == (now + DAY).date()  # what is gone stays gone
