"""What owners read."""

import re

from django.utils import timezone

from billing import locks
from tests import usage


def text(reply):
    """Return the page's text without markup."""
    assert reply.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", reply.content.decode()).split())


def use(key, *, cost_nanos, number=1, day=None):
    """Settle a completion of the key: on its spending day and in the ledger."""
    account = locks.lock_account(key.account_id)
    day = day or timezone.now().date()
    usage.reserve(key, day=day, amount_nanos=cost_nanos)
    usage.commit(key, day=day, held_nanos=cost_nanos, spent_nanos=cost_nanos, prompt_tokens=5, completion_tokens=9)
    return usage.debit(account, cost_nanos, f"chatcmpl-{key.pk}-{number}", prompt_tokens=5, completion_tokens=9)


SECRET = re.compile(r"mgw_live_[0-9A-Za-z]{22}_[0-9A-Za-z]{38}")
