"""Explains how a completion went and what it cost, in words and line by line, from the columns of its row and of its hold.

``compare`` sets two charges side by side: why one completion cost more than another.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from operator import attrgetter
from typing import Any

from billing import money
from billing.models import Hold
from completions.chat import Promise
from completions.models import Completion
from completions.pricing.rates import CostPart
from gateway_project.text import dollars, timestamps

_Settlement = Completion.Settlement


def describe_demands(completion: Completion) -> list[tuple[str, str]]:
    """Return the demands about data, and the promise of the route that served, in words: each with its title."""
    told = [
        (f"Data: the {source} demands", _describe_demand(each)) for source, each in (completion.data_demanded or {}).items()
    ]
    return [*told, ("Data: the route promises", str(Promise(**completion.data_promised)))] if completion.data_promised else told


def _describe_demand(fields: dict[str, Any]) -> str:
    return ", ".join(
        name if value is True else f"{name} {' or '.join([value] if isinstance(value, str) else value)}"
        for name, value in fields.items()
    )


class Status(Enum):
    """How a completion stands. ``settlements`` are the stored values; running ones have none."""

    SUCCEEDED = ("succeeded", "active", (_Settlement.REPORTED, _Settlement.ESTIMATED))
    CORRECTION = ("correction", "active", (_Settlement.CORRECTED,))
    CUT_SHORT = ("cut short", "expired", (_Settlement.PARTIAL, _Settlement.RECOVERED))
    FAILED = ("failed", "revoked", (_Settlement.RELEASED, _Settlement.EXPIRED))
    RUNNING = ("running", "waiting", ())

    def __init__(self, words: str, kind: str, settlements: tuple[Completion.Settlement, ...]) -> None:
        self.words, self.kind, self.settlements = words, kind, settlements  # ``kind`` names it for the style sheet


_STATUS_OF = {settlement: status for status in Status for settlement in status.settlements}

_SETTLEMENTS: dict[str, str] = {
    _Settlement.REPORTED: "Charged from the provider's token counts.",
    _Settlement.ESTIMATED: "The provider sent no token counts, so input and output are estimated at 4 bytes per token.",
    _Settlement.PARTIAL: "The reply broke off. You are charged the estimated input and the text that arrived, or "
    "the provider's counts so far if they are higher.",
    _Settlement.RECOVERED: "A gateway process died during the request. You are charged the estimated input and the output "
    "that it recorded as delivered.",
    _Settlement.RELEASED: "Not charged, and the hold was released: no text arrived from a provider, or the caller left "
    "before one was called.",
    _Settlement.EXPIRED: "Not settled in time. You were not charged, and the hold was released.",
    _Settlement.CORRECTED: "Corrects a request that the gateway could not settle in time, so it charged an estimate or nothing."
    " You are charged what it cost, less what was already charged.",
}
_RUNNING = "Still running. When it ends, it is charged and the rest of the hold is released."

_REFUSED_REQUEST = "refused the request: the reply says why"
_FAILURES: dict[int | None, str] = {
    None: "could not be reached, did not answer in time, or broke off",
    **dict.fromkeys((400, 413, 422), _REFUSED_REQUEST),
    **dict.fromkeys((401, 402, 403), "did not serve the gateway"),
    **dict.fromkeys((408, 504), "did not answer in time"),
    **dict.fromkeys((429, 503, 529), "was overloaded"),
}
_OWN_KEY_FAILURES: dict[int | None, str] = {
    400: _REFUSED_REQUEST,
    **dict.fromkeys((401, 403), "refused your own key"),
    **dict.fromkeys((402, 429), "said that your own key has no quota left, or sends too much at a time"),
}


@dataclass(frozen=True)
class Charge:
    """The charge of a completion. Its ``parts`` add up to ``listed_nanos``, rounded up once: the price, which is charged as
    ``computed_nanos``, of which an own key leaves the fee.

    ``cost_nanos`` is the charge: ``computed_nanos`` less ``charged_before_nanos`` of an earlier run, and at most the hold. The
    operator pays ``beyond_hold_nanos``. ``returned_nanos`` of the hold were given back; None while the completion runs.
    """

    parts: list[CostPart]
    listed_nanos: int
    computed_nanos: int
    charged_before_nanos: int
    beyond_hold_nanos: int
    cost_nanos: int
    held_nanos: int
    returned_nanos: int | None


def show_charge(charge: Charge) -> dict[str, Any]:
    """Return the amounts of a charge on a page, with one number of decimals: they add up as they are shown.

    The exact amount of a part is the one before the rounding of all.
    """
    part_nanos = dollars.apportion([part.unrounded for part in charge.parts], money.TOKENS_PER_PRICE, charge.listed_nanos)
    taken_nanos = [charge.charged_before_nanos, charge.beyond_hold_nanos, charge.cost_nanos]
    decimals = dollars.decimals([*part_nanos, *taken_nanos, charge.listed_nanos, charge.computed_nanos])
    parts = [
        (part, dollars.Amount(amount.shown, dollars.format_unrounded_usd(part.unrounded)))
        for part, amount in zip(charge.parts, dollars.show_parts(part_nanos, decimals), strict=True)
    ]
    sums = {"listed": dollars.show(charge.listed_nanos, decimals), "computed": dollars.show(charge.computed_nanos, decimals)}
    before, beyond_hold, charged = dollars.show_parts(taken_nanos, decimals)
    return {"parts": parts, **sums, "charged_before": before, "beyond_hold": beyond_hold, "charged": charged}


def status_of(completion: Completion) -> Status:
    return _STATUS_OF[_Settlement(completion.settlement)] if completion.settlement else Status.RUNNING


def describe_settlement(completion: Completion) -> str:
    """Return a sentence about the settlement, as in docs/charging.md."""
    return _SETTLEMENTS[completion.settlement] if completion.settlement else _RUNNING


def total_tokens(completion: Completion) -> int | None:
    if completion.completion_tokens is None:
        return None
    return (completion.prompt_tokens or 0) + completion.completion_tokens


def total_ms(completion: Completion) -> int | None:
    """Return how long it ran; None while it runs."""
    ended_at = completion.finished_at
    return round((ended_at - completion.created_at) / timedelta(milliseconds=1)) if ended_at else None


def explain_charge(completion: Completion, hold: Hold) -> Charge:
    cost_nanos = completion.cost_nanos or 0
    images = completion.images if _is_charged(completion) else 0  # they were counted at admission
    listed_nanos = completion.price.sheet.cost_nanos(completion.usage, images)
    computed_nanos = completion.sheet.cost_nanos(completion.usage, images)
    before_nanos = min(completion.charged_before_nanos, computed_nanos)
    return Charge(
        parts=completion.sheet.parts(completion.usage, images),
        listed_nanos=listed_nanos,
        computed_nanos=computed_nanos,
        charged_before_nanos=before_nanos,
        beyond_hold_nanos=max(computed_nanos - before_nanos - cost_nanos, 0) if completion.settlement else 0,
        cost_nanos=cost_nanos,
        held_nanos=hold.amount_nanos,
        returned_nanos=hold.amount_nanos - cost_nanos if completion.settlement else None,
    )


def list_attempts(completion: Completion) -> list[dict[str, Any]]:
    """Return the tries at providers, in their order. A provider's own words about a failure are for staff only."""
    attempts = []
    for each in completion.failed_attempts or []:
        words = _OWN_KEY_FAILURES.get(each["status"], "failed with your own key") if each.get("own_key") else ""
        words = words or _FAILURES.get(each["status"], "failed")
        attempts.append({"provider": each["provider"], "status": each["status"], "words": words})
    if completion.settlement and len(attempts) < (completion.attempts or 0):
        words = "answered" if _is_charged(completion) else "had not answered when the caller left or the gateway stopped"
        own = "" if completion.own_key_fee is None else ", asked with your own key"
        attempts.append({"provider": completion.provider_id, "status": None, "words": f"{words}{own}"})
    return attempts


def _is_charged(completion: Completion) -> bool:
    return status_of(completion) in (Status.SUCCEEDED, Status.CUT_SHORT, Status.CORRECTION)


def compare(first: Completion, second: Completion) -> list[tuple[str, ...]]:
    """Return what the charges were computed from, and what came out: by name for the first and for the second, in order."""
    both = [(each, explain_charge(each, Hold.objects.get(pk=each.pk))) for each in (first, second)]
    lines = [(name, *(describe(completion) for completion, _ in both)) for name, describe in _FACTS.items()]
    for kind in dict.fromkeys(part.kind for _, charge in both for part in charge.parts):
        lines.append((kind.capitalize(), *(_describe_part(charge, kind) for _, charge in both)))
    return [*lines, *((name, *(dollars.format_usd(read(charge)) for _, charge in both)) for name, read in _SUMS.items())]


def _describe_part(charge: Charge, kind: str) -> str:
    part = next((each for each in charge.parts if each.kind == kind), None)
    if part is None:
        return "-"
    price, each = dollars.format_usd(part.price_nanos), " each" if part.per == 1 else " per 1M"
    return f"{part.number:,} at {price}{each}: {dollars.format_unrounded_usd(part.unrounded)}"


_FACTS: dict[str, Callable[[Completion], str]] = {
    "Account": lambda each: str(each.account),
    "Key": lambda each: each.key.name,
    "Started": lambda each: timestamps.in_words(each.created_at),
    "Model": lambda each: str(each.model_id),
    "Provider": lambda each: str(each.provider_id),
    "Price valid from": lambda each: timestamps.in_words(each.price.effective_from),
    "Reply": lambda each: "streamed" if each.is_stream else "whole",
    "How it was settled": describe_settlement,
}
_SUMS: dict[str, Callable[[Charge], int]] = {
    "Total, rounded up once": attrgetter("computed_nanos"),
    "Less an earlier charge": attrgetter("charged_before_nanos"),
    "Less what exceeds the hold": attrgetter("beyond_hold_nanos"),
    "Charged": attrgetter("cost_nanos"),
    "Held": attrgetter("held_nanos"),
}
