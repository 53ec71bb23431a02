"""Tells accounts what changes of models that they used: a price that rises or falls, the end and the successor of a model.

A rise is told AHEAD_TIME before it begins, if it is known, and a fall when it begins; an end when it is set, and once more
before it. Each is an alert of its own, and one mail a day sums them up. The id of an alert is made of its account and its
cause, and each cell has a lock, so that a task that dies, or runs twice, neither loses nor repeats one.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from django.db import transaction
from django.db.models import BigIntegerField, Count, Exists, Max, Min, OuterRef, Q, QuerySet
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from billing.alerts import payload
from billing.models import AccountAlert
from completions.catalog.sync import diff
from completions.models import LanguageModel, Price, UsageHour
from completions.pricing.meters import ASKED_FOR
from completions.pricing.rates import STANDARD, RateSheet
from gateway_project.db import cell, everywhere, pool

AHEAD_TIME = timedelta(days=8)  # seven are promised, and a mail may wait a day for the one before it
LATE_TIME = timedelta(days=3)  # for which what has begun is told, should no task have run
USED_TIME = timedelta(days=30)  # who used a model in it is told
_Kind = AccountAlert.Kind


class _Change(NamedTuple):
    """News for accounts. ``cause`` is a name that no other change has."""

    kind: _Kind
    cause: str
    accounts: Collection[UUID]
    data: dict[str, Any]


class _Use(NamedTuple):
    account: UUID
    first: datetime
    last: datetime


def tell() -> int:
    """Write the alerts that are due in this cell, and the mails that sum them up. Return how many alerts."""
    with transaction.atomic():
        cell.take_turn(f"completions.catalog.change_alerts {cell.current()}")
        now = pool.database_time()
        told = sum(map(_write, [*_due_prices(now), *_withdrawn_prices(), *_due_ends(now)]))
        _sum_up(now)
    return told


def _due_prices(now: datetime) -> Iterator[_Change]:
    prices = Price.objects.filter(effective_from__gt=now - LATE_TIME, effective_from__lte=now + AHEAD_TIME)
    due = [
        (price, before, direction)
        for price in prices.filter(model__is_enabled=True).select_related("model").order_by("effective_from", "pk")
        if (before := price.model.prices.before(price.effective_from))
        and (direction := _direction(before.sheet, price.sheet))
        and (direction == "rise" or price.effective_from <= now)
    ]
    uses = _read_uses({price.model_id for price, *_ in due}, now)
    for price, before, direction in due:
        used = [use.account for use in uses.get(price.model_id, []) if use.first < price.effective_from]
        old, new = before.sheet.values, price.sheet.values
        data = {
            **{"model": price.model_id, "price_id": price.pk, "direction": direction},
            **{"change": diff.describe_price_change(old, new), "before": old, "after": new},
            "starts_at": price.effective_from.isoformat(timespec="seconds"),
        }
        yield _Change(_Kind.PRICE_CHANGED, f"price {price.pk}", used, data)


def _direction(before: RateSheet, after: RateSheet) -> str:
    """Return "rise" if any rate becomes dearer that is offered before and after, else "fall"; empty if they stay the same."""
    both = {STANDARD, *before.tiers} & {STANDARD, *after.tiers}
    changes = {
        new_nanos - old_nanos
        for meter, tier, old_nanos, new_nanos in diff.rates_before_and_after(before, after)
        if tier in both and (meter not in ASKED_FOR or before.offers(meter, tier) and after.offers(meter, tier))
    } - {0}
    return "" if not changes else "rise" if max(changes) > 0 else "fall"


def _withdrawn_prices() -> Iterator[_Change]:
    """Yield the announced prices that were deleted before they began, for those who were told of them."""
    announced = AccountAlert.objects.filter(kind=_Kind.PRICE_CHANGED, data__direction="rise")
    announced = announced.annotate(price=Cast(KT("data__price_id"), BigIntegerField()))
    gone = announced.filter(~Exists(Price.objects.filter(pk=OuterRef("price")))).order_by("price")
    for price, of_price in groupby(gone, key=lambda alert: alert.data["price_id"]):
        alerts = list(of_price)
        data = {**alerts[0].data, "direction": "withdrawn"}
        yield _Change(_Kind.PRICE_CHANGED, f"withdrawn {price}", [alert.account_id for alert in alerts], data)


def _due_ends(now: datetime) -> Iterator[_Change]:
    ahead = (now + AHEAD_TIME).date()
    soon = Q(ends_on__gt=now.date(), ends_on__lte=ahead)
    models = list(LanguageModel.objects.filter(Q(end_set_at__gt=now - LATE_TIME) | soon, is_enabled=True))
    uses = _read_uses({model.pk for model in models}, now)
    for model in models:
        cause = _cause_of_end(model, now)
        accounts = {use.account for use in uses.get(model.pk, [])}
        if not (model.ends_on or model.successor_id):
            told = AccountAlert.objects.filter(kind=_Kind.MODEL_ENDS).annotate(model=KT("data__model")).filter(model=model.pk)
            accounts = set(told.values_list("account_id", flat=True))
        data = {"model": model.pk, "ends_on": model.ends_on and model.ends_on.isoformat(), "successor": model.successor_id}
        if cause:
            yield _Change(_Kind.MODEL_ENDS, cause, accounts, data)


def _cause_of_end(model: LanguageModel, now: datetime) -> str:
    """Return what is told of the end now: that it was set, or that it is near; empty if that was told when it was set."""
    set_at = model.end_set_at
    if set_at and set_at > now - LATE_TIME:
        return f"end {model.pk} {set_at.isoformat()}"
    was_known = set_at is None or (model.ends_on and set_at.date() + AHEAD_TIME < model.ends_on)
    return f"near {model.pk} {model.ends_on}" if was_known else ""


def _read_uses(model_ids: Collection[str], now: datetime) -> dict[str, list[_Use]]:
    """Return by model who used it in USED_TIME. ``first`` says who had begun before a change, which is no news to others."""
    hours = UsageHour.objects.filter(hour__gte=now - USED_TIME - LATE_TIME, model_id__in=model_ids, account__is_active=True)
    found = hours.values_list("model_id", "account_id").annotate(first=Min("hour"), last=Max("hour"))
    uses = [(model_id, _Use(*use)) for model_id, *use in found.order_by("model_id")] if model_ids else []
    recent = [(model_id, use) for model_id, use in uses if use.last >= now - USED_TIME]
    return {model_id: [use for _, use in of_model] for model_id, of_model in groupby(recent, key=lambda each: each[0])}


def _write(change: _Change) -> int:
    accounts = {uuid5(account, change.cause): account for account in change.accounts}
    known = set(AccountAlert.objects.filter(pk__in=accounts).values_list("pk", flat=True))
    make = partial(AccountAlert, kind=change.kind, data=change.data)
    new = [make(pk=id, account_id=account) for id, account in accounts.items() if id not in known]
    return len(AccountAlert.objects.bulk_create(new, batch_size=1_000))


def _sum_up(now: datetime) -> None:
    """Write one mail a day for each account with alerts that no mail has. News too late for that of today waits."""
    mails = AccountAlert.objects.filter(account_id=OuterRef("account_id"), kind=_Kind.CHANGES_SUMMED)
    has_mail = Exists(mails.filter(created_at__gte=OuterRef("created_at")))
    alerts = AccountAlert.objects.filter(~has_mail, kind__in=AccountAlert.SUMMED, created_at__gt=now - USED_TIME)
    waiting = alerts.order_by("account_id", "created_at", "pk")
    mail = partial(AccountAlert, kind=_Kind.CHANGES_SUMMED)
    sums = []
    for account, found in groupby(waiting, key=lambda alert: alert.account_id):
        summed = list(found)
        data = {"alert_ids": [str(each.pk) for each in summed], "words": [payload.describe(each) for each in summed]}
        sums.append(mail(pk=uuid5(account, f"mail {now.date()}"), account_id=account, data=data))
    AccountAlert.objects.bulk_create(sums, ignore_conflicts=True, batch_size=1_000)


class Told(NamedTuple):
    """The last news of a model: a price, or else the day of its end."""

    model_id: str
    price_id: int | None
    ends_on: str | None


def count_told(model_ids: Collection[str]) -> Counter[Told]:
    """Return how many accounts were told of the changes of these models."""
    counts: Counter[Told] = Counter()
    alerts = AccountAlert.objects.filter(kind__in=AccountAlert.SUMMED).annotate(model=KT("data__model"))
    of_models = alerts.filter(model__in=model_ids).annotate(price=KT("data__price_id"), ends_on=KT("data__ends_on"))
    by_change = of_models.values_list("model", "price", "ends_on").order_by()
    told: QuerySet[AccountAlert, Any] = by_change.annotate(Count("account", distinct=True))
    for found in everywhere.run(lambda: list(told.all()), may_miss=True):
        counts.update({Told(model, price and int(price), ends_on): number for model, price, ends_on, number in found})
    return counts
