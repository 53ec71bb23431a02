"""Prices that staff ask for, which a second person approves. Catalog files and lists of providers set prices without one."""

from typing import Any
from uuid import UUID

from django.db import transaction

from billing import money
from billing.models import User
from billing.staff import approvals
from billing.staff.approvals import ApprovalRefused, Decision
from completions.catalog import writes
from completions.catalog.sync import diff
from completions.models import LanguageModel, Price, PriceRequest, TokenPrices
from completions.pricing import rates
from completions.pricing.rates import RateSheet
from completions.statistics import margins, measurements
from gateway_project.db import pool
from gateway_project.text import dollars

_EXAMPLE_TOKENS = 1_000


def ask(model: LanguageModel, by: User, sheet: RateSheet, **columns: object) -> PriceRequest:
    """Ask for a price. The catalog is locked. Raises ApprovalRefused if another one waits."""
    approvals.decline_lapsed(PriceRequest.objects.filter(model=model), by)
    if (waiting := PriceRequest.objects.filter(model=model, decision="").first()) is not None:
        raise ApprovalRefused(
            f"{waiting.requested_by} asked for another price, which waits for approval. Decide on that one first."
        )
    given = {"before": model.prices.at(), "seen": _state(model), **columns}
    return PriceRequest.objects.create(model=model, requested_by=by, rates=sheet.rows, **given)


def ask_to_withdraw(price: Price, before: Price, by: User) -> PriceRequest:
    """Ask, as ``ask`` does, that ``before`` stays in force instead of the next price, which has not begun."""
    change = diff.describe_price_change(price.sheet.values, before.sheet.values)
    reason = f"Withdraws the price from {price.effective_from:%Y-%m-%d %H:%M} UTC: {change}."
    return ask(price.model, by, before.sheet, starts_at=price.effective_from, reason=reason[:500])


def approve(id: UUID, *, by: User) -> Price:
    """Set or withdraw the price as asked. Return the one that holds then. Raises ApprovalRefused, PriceRequest.DoesNotExist."""
    with transaction.atomic():
        writes.lock_catalog()
        asked = approvals.lock(PriceRequest, id, by.pk)
        if reason := refusal(asked, by):
            raise ApprovalRefused(reason)
        if asked.starts_at and (staying := _staying(asked)):
            asked.model.prices.filter(effective_from=asked.starts_at).delete()  # it has not begun: no completion refers to it
            price = staying
        else:
            price = writes.set_price(asked.model_id, asked.sheet, starts_at=asked.starts_at)
        approvals.decide(asked, Decision.APPROVED, by, price=price)
    return price


def _staying(asked: PriceRequest) -> Price | None:
    """Return the price that stays in force if the request asks for no other: what it withdraws is the next one."""
    before = asked.model.prices.before(asked.starts_at) if asked.starts_at else None
    return before if before and before.sheet == asked.sheet else None


def refusal(asked: PriceRequest, by: User) -> str:
    """Return why ``by`` cannot approve the price, or ''."""
    if reason := approvals.refusal(asked, by):
        return reason
    if asked.model.prices.at() != asked.before:
        return "Another price was set since this was asked for. Decline it, and ask again if it is still due."
    if asked.starts_at and asked.starts_at <= pool.database_time():
        return "It was to start before now. Decline it, and ask again if it is still due."
    if asked.starts_at and asked.model.prices.filter(effective_from=asked.starts_at).exists() and not _staying(asked):
        return "Another price starts at the same time."
    return approvals.change_since(asked, _state(asked.model))


def _state(model: LanguageModel) -> dict[str, Any]:
    return {"What it costs later": list(model.prices.later().values_list("pk", flat=True))}


def describe(asked: PriceRequest) -> str:
    """Return what the price changes of the one that its author saw, in percent, and from when on."""
    if asked.starts_at and _staying(asked):
        return f"the withdrawal of the price that was to begin at {asked.starts_at:%Y-%m-%d %H:%M} UTC: the one before it stays"
    before = asked.before.sheet.values if asked.before else {}
    start = f"from {asked.starts_at:%Y-%m-%d %H:%M} UTC" if asked.starts_at else "when it is approved"
    return f"{diff.describe_price_change(before, asked.sheet.values) or 'the same price'}, {start}"


def describe_effect(model: LanguageModel, after: TokenPrices) -> list[str]:
    """Return what a price of the model does to holds and margins, in sentences."""
    (number, nanos), before = measurements.read_open_holds("model_id", model.pk), model.prices.at()
    sentences = [
        f"{number:,} requests run now and hold {dollars.format_usd(nanos)}. They keep their hold and their price.",
        f"Each new request of {_EXAMPLE_TOKENS:,} input and {_EXAMPLE_TOKENS:,} output tokens holds"
        f" {_example(after)}{f' instead of {_example(before)}' if before else ''}.",
    ]
    for cost in margins.provider_prices(model):
        below = [rate for rate in cost.sheet if after.sheet.nanos_of(*rate[:3]) < rate.nanos]
        if below:
            prices = ", ".join(f"{dollars.format_usd(rate.nanos)} for {rates.describe_name(rate.name)}" for rate in below)
            sentences.append(f"It is below what {cost.provider_id} charges: {prices}.")
    return sentences


def _example(price: TokenPrices) -> str:
    held = price.sheet.held(None, _EXAMPLE_TOKENS)
    return dollars.format_usd(money.round_up(_EXAMPLE_TOKENS * (held.input_nanos + held.output_nanos)))
