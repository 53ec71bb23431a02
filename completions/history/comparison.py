"""Two charges side by side: why one completion cost more than another."""

from collections.abc import Callable
from dataclasses import dataclass

from billing.models import Hold
from completions.history import explanation
from completions.history.explanation import Charge
from completions.models import Completion
from gateway_project.text import dollars, timestamps


@dataclass(frozen=True)
class Line:
    name: str
    first: str
    second: str

    @property
    def differs(self) -> bool:
        return self.first != self.second


@dataclass(frozen=True)
class _Explained:
    completion: Completion
    charge: Charge


def compare(first: Completion, second: Completion) -> list[Line]:
    """Return what the charges were computed from, and what came out, as lines in their order."""
    both = [_Explained(each, explanation.explain_charge(each, Hold.objects.get(pk=each.pk))) for each in (first, second)]
    kinds = dict.fromkeys(part.kind for each in both for part in each.charge.parts)
    lines = [Line(name, *map(describe, both)) for name, describe in _FACTS.items()]
    lines += [Line(kind.capitalize(), *(_describe_part(each, kind) for each in both)) for kind in kinds]
    return [*lines, *(Line(name, *map(describe, both)) for name, describe in _SUMS.items())]


def _describe_part(explained: _Explained, kind: str) -> str:
    part = next((each for each in explained.charge.parts if each.kind == kind), None)
    if part is None:
        return "-"
    price, each = dollars.format_usd(part.price_nanos), " each" if part.per == 1 else " per 1M"
    return f"{part.number:,} at {price}{each}: {dollars.format_unrounded_usd(part.unrounded)}"


_Describe = Callable[[_Explained], str]
_FACTS: dict[str, _Describe] = {
    "Account": lambda each: str(each.completion.account),
    "Key": lambda each: each.completion.key.name,
    "Started": lambda each: timestamps.in_words(each.completion.created_at),
    "Model": lambda each: str(each.completion.model_id),
    "Provider": lambda each: str(each.completion.provider_id),
    "Price valid from": lambda each: timestamps.in_words(each.completion.price.effective_from),
    "Reply": lambda each: "streamed" if each.completion.is_stream else "whole",
    "How it was settled": lambda each: explanation.describe_settlement(each.completion),
}
_SUMS: dict[str, _Describe] = {
    "Total, rounded up once": lambda each: dollars.format_usd(each.charge.computed_nanos),
    "Less an earlier charge": lambda each: dollars.format_usd(each.charge.charged_before_nanos),
    "Less what exceeds the hold": lambda each: dollars.format_usd(each.charge.beyond_hold_nanos),
    "Charged": lambda each: dollars.format_usd(each.charge.cost_nanos),
    "Held": lambda each: dollars.format_usd(each.charge.held_nanos),
}
