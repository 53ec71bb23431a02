"""Every table of an account says whether it is exported and what the erasure does, and both do what it says."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.db import transaction
from django.utils import timezone

from billing import locks, tasks
from billing.account_settings import own_tables
from billing.account_settings.own_tables import BESIDE, is_file
from billing.ledger import writer
from billing.models import (
    Account,
    AccountAlert,
    AccountClosing,
    AlertDelivery,
    EmailChoice,
    Invitation,
    User,
    WebhookEndpoint,
)
from completions.charging import stored_responses
from completions.models import Completion, OwnKey, StoredResponse
from completions.tasks import forget_stored_responses
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from gateway_project.db.owned import DELETED, path_to_account
from keys.models import Budget, BudgetMonth, RefusalCount, RefusedRequest, Run, SpendingDay
from tests import factories
from tests.pages import admin_rows
from tests.pages.conftest import owner_of

SECRET = "an-address-that-nobody-else-knows"


def test_each_table_of_an_account_has_a_word_about_export_and_erasure():
    words = own_tables.of_accounts()
    assert {model._meta.label for model, kept in words.items() if kept is None} == set()
    for model, kept in words.items():
        assert is_file(kept) or kept.exported.endswith("."), model
        assert kept.erased == DELETED or kept.erased.endswith("."), model
    assert {kept.exported for kept in words.values() if is_file(kept)} <= own_tables.readers().keys()


def test_the_files_of_an_export_have_an_order_that_no_model_changes():
    names = list(own_tables.readers())
    first = ["account", "members", "ledger", "payments", "credit_notes", "alerts", "activity", "keys"]
    first += ["requests", "responses", "own_keys"]
    assert names[: len(first)] == first
    assert names[len(first) :] == sorted(names[len(first) :])


def test_each_other_table_of_people_has_one_too():
    """One that refers to a person, to an account without being in a cell, or to such a table."""
    others = [model for model in apps.get_models() if model not in own_tables.of_accounts()]
    found: set[Any] = {User, *(model for model in others if {field.name for field in model._meta.fields} & {"account_id"})}
    for _ in others:
        found |= {model for model in others if {field.related_model for field in model._meta.concrete_fields} & found}
    assert {model._meta.label_lower for model in found} == BESIDE.keys()


def test_a_new_table_without_a_word_is_found(monkeypatch):
    monkeypatch.setattr(WebhookEndpoint, "kept", None)
    assert [model for model, kept in own_tables.of_accounts().items() if kept is None] == [WebhookEndpoint]


@pytest.fixture
def filled(alice):
    """An account with rows in every table that is exported or deleted."""
    key, _ = factories.make_key(alice, "laptop")
    model, now = factories.make_model("acme/fast"), timezone.now()
    reference = f"chatcmpl-{key.pk}"
    fixed: dict[str, Any] = {"spending_day": now.date(), "counted_tokens": 1, "is_stream": False}
    fixed |= {"model": model, "price": model.prices.get(), "provider": model.routes.get().provider}
    Completion.objects.create(id=reference, account=alice, key=key, **fixed)
    admin_rows.fill(key, reference)
    refused = {"status": 429, "code": "rate_limit_exceeded", "error": "RateLimited"}
    RefusalCount.objects.create(key=key, hour=now.replace(minute=0, second=0, microsecond=0), number=1, **refused)
    RefusedRequest.objects.create(key=key, at=now, request_id="req_1", **refused)
    SpendingDay.objects.create(key=key, day=now.date(), spent_nanos=7)
    Run.objects.create(key=key, name="nightly", budget_nanos=9)
    OwnKey.objects.create(account=alice, provider=fixed["provider"], sealed_secret="sealed", hint="wxyz")
    budget = Budget.objects.create(account=alice, scope="TAG", tag="team", amount_cents=1, action="WARN")
    BudgetMonth.objects.create(budget=budget, month=now.date().replace(day=1), amount_cents=1)
    endpoint = WebhookEndpoint.objects.create(account=alice, url=f"https://example.org/{SECRET}", sealed_secret="sealed")
    alert = AccountAlert.objects.create(account=alice, kind="BALANCE_LOW", data={})
    AlertDelivery.objects.create(alert=alert, endpoint=endpoint, next_try_at=now)
    EmailChoice.objects.create(account=alice, refunds=False)
    texts = {name: stored_responses.seal(alice.pk, json.dumps([{"text": SECRET}]).encode()) for name in stored_responses.TEXTS}
    later = now + timedelta(days=1)
    StoredResponse.objects.create(completion_id=reference, account=alice, stored_bytes=9, expires_at=later, **texts)
    closing_at = {"closed_by": owner_of(alice), "is_refunded": False, "erase_at": later, "undone_at": now}
    AccountClosing.objects.create(account=alice, **closing_at)
    alice.exports.create(asked_by=owner_of(alice))
    with transaction.atomic():
        credit = alice.entries.get(seq=1)
        alice.payments.update(status="PAID", credit=credit, receipt_number=1, paid_at=now)
        payment = alice.payments.get(credit=credit)
        writer.refund(locks.lock_account(alice.pk), payment, amount_cents=1, reference="r", reason="Refunded")
        log.record(None, Activity.Act.CHANGED, alice, "Changed it.", account_id=alice.pk)
    return alice


def exported(account):
    return {name: list(read(account)) for name, read in own_tables.readers().items()}


def test_the_export_has_the_rows_of_each_table_and_no_secret(filled, bob):
    files = exported(filled)
    assert {name for name, rows in files.items() if not rows} == set()
    [webhook], [response], [invited] = files["webhooks"], files["responses"], files["invitations"]
    assert (webhook["url"], webhook["isPaused"]) == (f"https://example.org/{SECRET}", False)
    assert (response["input"], response["output"]) == ([{"text": SECRET}], [{"text": SECRET}])
    assert (invited["email"], invited["role"], invited["invitedBy"]) == ("new@example.org", "VIEWER", "alice@example.org")
    assert files["emails"][0]["refunds"] is False
    assert [(row["provider"], row["endsWith"]) for row in files["own_keys"]] == [(filled.own_keys.get().provider_id, "wxyz")]
    text = json.dumps(files)
    assert "sealed" not in text
    assert "0" * 64 not in text  # a digest
    assert "asks@example.org" not in text  # of staff
    assert SECRET not in json.dumps(exported(bob))


def test_a_response_that_cannot_be_decrypted_is_named_without_its_texts(filled):
    StoredResponse.objects.update(sealed_input="damaged")
    [response] = exported(filled)["responses"]
    assert (response["id"], response["input"], response["output"]) == (StoredResponse.objects.get().pk, None, None)


def test_the_erasure_leaves_no_row_of_what_is_deleted(filled, bob):
    Invitation.objects.create(
        account=bob, email="b@example.org", role="VIEWER", digest="9" * 64, invited_by=owner_of(bob), expires_at=timezone.now()
    )
    user = owner_of(filled)
    Account.objects.filter(pk=filled.pk).update(is_active=False)
    filled.refresh_from_db()
    AccountClosing.objects.create(account=filled, closed_by=user, is_refunded=False, erase_at=timezone.now())
    assert tasks.erase_closed_accounts() == 1
    for model, kept in own_tables.of_accounts().items():
        rows = model._default_manager.filter(**{path_to_account(model): filled.pk})
        assert rows.exists() is (kept.erased != DELETED) or not is_file(kept), model
    for label, kept in BESIDE.items():
        if kept.erased == DELETED:
            assert not apps.get_model(label).objects.filter(user=user).exists(), label
    forget_stored_responses()
    assert not StoredResponse.objects.exists()
    assert bob.invitations.exists()
