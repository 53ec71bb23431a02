"""Staff who read, and a customer with a row of each kind."""

from datetime import UTC, datetime

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group
from django.db import transaction

from billing import locks
from billing.models import CreditRequest, Payment
from completions.models import Completion
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from keys.models import RefusalCount, RefusedRequest, SpendingDay
from tests import factories, usage
from tests.gateway_project.activity.groups import fill as make_groups
from tests.pages import admin_rows
from tests.pages.conftest import owner_of, signed_in


@pytest.fixture
def customer(alice):
    make_groups()
    key, _ = factories.make_key(alice, "laptop")
    model = factories.make_model("acme/fast")
    reference, cost_nanos, now = f"chatcmpl-{key.pk}", 7_650_000, datetime.now(UTC)
    with transaction.atomic():
        usage.debit(locks.lock_account(alice.pk), cost_nanos, reference, spender=key.pk)
        usage.place(alice, 1, reference=reference, expires_at=now)
        SpendingDay.objects.create(key=key, day=now.date(), spent_nanos=cost_nanos)
        refused = {"status": 429, "code": "rate_limit_exceeded", "error": "RateLimited"}
        RefusalCount.objects.create(key=key, hour=now.replace(minute=0, second=0, microsecond=0), number=1, **refused)
        RefusedRequest.objects.create(key=key, at=now, request_id="req_1", **refused)
        ended = {"settlement": "reported", "finished_at": now, "cost_nanos": cost_nanos, "prompt_tokens": 9}
        ended |= {"completion_tokens": 9, "counted_tokens": 1, "spending_day": now.date()}
        ended |= {"failed_attempts": [{"provider": "echo", "status": 503, "reason": "overloaded"}]}
        fixed = {"model": model, "price": model.prices.get(), "provider": model.routes.get().provider, "is_stream": False}
        Completion.objects.create(id=reference, account=alice, key=key, **fixed, **ended)
    admin_rows.fill(key, reference)
    asker = factories.make_user("asker@example.org")
    CreditRequest.objects.create(reference="form", account=alice, amount_cents=3_037, reason="x", requested_by=asker)
    Payment.objects.create(account=alice, amount_cents=2_019, processor="stripe", is_live=True, session_id="cs_2")
    with transaction.atomic():
        log.record(None, Activity.Act.CREDITED, alice, "Credited $30.37.", account_id=alice.pk)
        log.record(None, Activity.Act.CHANGED, owner_of(alice), "Changed a passkey of alice@example.org.")
        log.record(None, Activity.Act.CHANGED, model, "Changed the model.")
    return alice


def staff_in(group):
    staff = factories.make_user(f"{group.replace(' ', '-')}@example.com", is_staff=True)
    staff.groups.add(Group.objects.get(name=group))
    return signed_in(staff)


@pytest.fixture(autouse=True)
def _without_navigation(monkeypatch):
    monkeypatch.setattr(admin.site, "get_app_list", lambda *args: [])  # two fifths of the work of a page
