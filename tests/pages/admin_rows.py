"""A row of each table that has a page in the admin."""

from datetime import timedelta

from django.contrib.auth.models import Group
from django.db import transaction
from django.utils import timezone

from billing.models import (
    BillingDetails,
    Invitation,
    OwnerRequest,
    PasswordLink,
    Payment,
    PaymentDifference,
    PaymentEvent,
    SecondFactorRequest,
    SignInLimit,
    TopUpRule,
)
from completions.models import (
    Bill,
    BillComparison,
    BilledModel,
    BillLine,
    CatalogProposal,
    Completion,
    CompletionHour,
    IdempotentRequest,
    Incident,
    LanguageModel,
    PriceRequest,
    ProviderDay,
    ProviderPrice,
    RoutableAlias,
    UpstreamList,
)
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from keys import management_keys
from keys.models import FormerSecret, ManagementReply
from rankings.models import DailyRank, Profile, Source, SourceState
from tests import factories
from tests.pages.conftest import owner_of
from tests.rankings.entries import list_model, publish
from tests.rankings.snapshots import make_alias, make_snapshot


@transaction.atomic
def fill(key, completion_id):
    """Make the rows that the account of a key has not by itself after a completion."""
    _of_billing(key.account)
    _of_keys(key)
    _of_completions(key.account, completion_id)
    _of_rankings()
    Group.objects.create(name="Night shift")
    log.record(None, Activity.Act.CHANGED, key, "Changed it.")


def _of_billing(account):
    owner, staff, later = owner_of(account), factories.make_user("asks@example.org"), timezone.now() + timedelta(days=1)
    asked = {"account": account, "reason": "as a ticket says", "requested_by": staff}
    OwnerRequest.objects.create(user=staff, **asked)
    SecondFactorRequest.objects.create(user=owner, **asked)
    BillingDetails.objects.create(account=account, name="Alice GmbH", address="Street 1", tax_id="DE1")
    Invitation.objects.create(
        account=account, email="new@example.org", role="VIEWER", digest="0" * 64, invited_by=owner, expires_at=later
    )
    PasswordLink.objects.create(user=owner, digest="1" * 64, expires_at=later)
    TopUpRule.objects.create(
        account=account, threshold_cents=500, amount_cents=2_000, month_cents_max=10_000, set_by=owner, processor="stripe"
    )
    payment = Payment.objects.create(account=account, amount_cents=2_000, processor="stripe", is_live=True, session_id="cs_1")
    said = {"processor": "stripe", "payment": payment}
    PaymentEvent.objects.create(event_id="evt_1", type="charge.refunded", outcome="REFUSED", note="of another amount", **said)
    PaymentDifference.objects.create(subject="pi_1", sentence="It is paid there and unknown here.", **said)
    SignInLimit.objects.create(digest="2" * 64, full_at=later)


def _of_keys(key):
    FormerSecret.objects.create(key=key, digest="3" * 64, last_four="ab12", ends_at=timezone.now() + timedelta(days=1))
    manager, _ = management_keys.issue(key.account, name="terraform", created_by=owner_of(key.account))
    reply = {"idempotency_key": "once", "fingerprint": "4" * 64, "status": 201, "sealed_body": "sealed"}
    ManagementReply.objects.create(management_key=manager, **reply)


def _of_completions(account, completion_id):
    completion, today = Completion.objects.get(pk=completion_id), timezone.now().date()
    model, provider, hour = completion.model, completion.provider, timezone.now().replace(minute=0, second=0, microsecond=0)
    PriceRequest.objects.create(
        model=model,
        requested_by=factories.make_user("prices@example.org"),
        rates=factories.rates_of(input_nanos=800, output_nanos=2_000),
        reason="dearer",
    )
    ProviderPrice.objects.create(
        model=model, provider=provider, since=today, rates=factories.rates_of(input_nanos=400, output_nanos=1_000)
    )
    sums = ("prompt_tokens", "cached_tokens", "cache_write_tokens", "cache_write_1h_tokens", "completion_tokens")
    used = dict.fromkeys((*sums, "images", "web_searches"), 1)
    ProviderDay.objects.create(day=today, model=model, provider=provider, completions=1, charged_nanos=1_000, **used)
    UpstreamList.objects.create(provider=provider, url="https://example.org/v1/models")
    CatalogProposal.objects.create(
        provider=provider, upstream_model="acme/next", kind="price", model=model, old={"input": "0.5"}, new={"input": "0.6"}
    )
    RoutableAlias.objects.create(id="best/general", model_ids=[model.pk])
    CompletionHour.objects.create(hour=hour, completions=1, cost_nanos=1_000)
    kept = {"key": "once", "fingerprint": "5" * 64, "is_stream": False, "expires_at": timezone.now() + timedelta(days=1)}
    IdempotentRequest.objects.create(account=account, completion=completion, **kept)
    Incident.objects.create(title="Slow replies")
    compare(model, provider, today)


def compare(model, provider, day):
    """Make a bill that differs from what was expected. Return how it compares."""
    told = {"lines": 2, "left_out": {"not models": {"lines": 1, "cost": "0.5", "first": [[4, "storage"]]}}, "sha256": "6" * 64}
    bill = Bill.objects.create(
        provider=provider, file_name="costs.csv", format="OpenAI costs", finished_at=timezone.now(), days=[day], **told
    )
    BilledModel.objects.create(provider=provider, name="large", model=model)
    line = {"name": "large", "account": "proj_a", "request_id": "", "lines": 2, "first_line": 2, "cost_usd": "1.2500000001"}
    BillLine.objects.create(bill=bill, day=day, tokens=2_000, **line)
    figures = {"completions": 1, "lines": 2, "charged_nanos": 2_000_000_000, "expected_nanos": 1_000_000_000}
    costs = {"billed_usd": "1.2500000001", "unexplained_usd": "0.2000000001", "reasons": {"estimates": "0.05"}}
    found = {"provider": provider, "bill": bill, "day": day, "name": model.pk, "finding": "other_price"}
    return BillComparison.objects.create(**found, **figures, **costs)


def _of_rankings():
    list_model("lab/alpha", rank=1, overall=90.0, quality=80.0, cost=20.0, model={"name": "Alpha", "maker": "Lab"})
    make_snapshot(Source.LMSYS_ARENA, {"GENERAL": {"some model": 1}})
    publish()
    SourceState.objects.get_or_create(source=Source.LMSYS_ARENA)
    model = LanguageModel.objects.get(pk="lab/alpha")
    Profile.objects.get_or_create(model=model)
    DailyRank.objects.create(source=Source.LMSYS_ARENA, board="GENERAL", model=model, day=timezone.now().date(), rank=1)
    make_alias(Source.LMSYS_ARENA, "some model", "lab/alpha")
