"""Compares the bills of a provider with what is known of its days, and keeps the result for pages, metrics and the command.

Of each model: what callers were charged, what the catalog expects the provider to charge, and what it billed. Each reason can
explain a difference between two bounds; what exceeds them all is unexplained. So is each hour, where a bill has hours.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, timedelta
from decimal import Decimal, localcontext
from itertools import islice
from typing import Any

from django.conf import settings
from django.db import transaction

from completions.bills import expected, names
from completions.bills.expected import Used
from completions.bills.formats import FORMATS
from completions.bills.reading import EXACT
from completions.models import Bill, BillComparison, BilledModel, BillLine, Completion
from gateway_project.db import cell, everywhere, pool
from gateway_project.large_work import sliced

REASONS = {
    "early": "the export was made before the figures were final",
    "midnight": "requests across midnight (UTC)",
    "hour": "requests across the hour",
    "estimates": "requests whose tokens are estimates",
    "failures": "attempts that failed or were abandoned",
    "price": "the provider's price changed",
    "rounding": "rounded costs",
}
_RECENT_DAYS = 31  # less than details of completions are kept: later they explain nothing
_REQUESTS_TIME = timedelta(days=1)  # by which clocks, and the times of bills, may differ
_CHUNK = 200
_Finding = BillComparison.Finding


@dataclass
class _Found:
    """A model on a day, or in an hour of it. Each reason explains a difference from -``less`` to ``more``, in US dollars."""

    used: dict[int, Used] = field(default_factory=lambda: defaultdict(Used))  # by shift of prices
    lines: int = 0
    billed: Decimal = Decimal(0)
    billed_tokens: int | None = 0
    less: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    more: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    finding: str = ""
    hours: "dict[int | None, _Found]" = field(default_factory=lambda: defaultdict(_Found))

    @property
    def known(self) -> Used:
        """Return the use by completions at the prices of their own day."""
        return self.used[0]

    @property
    def expected_nanos(self) -> int | None:
        return self.known.expected_nanos if not self.finding and self.known.is_priced else None

    @property
    def rest(self) -> Decimal:
        return self.billed - _dollars(self.expected_nanos or 0)

    def part(self, hour: int | None) -> "_Found":
        return self if hour is None else self.hours[hour]

    def add(self, line: BillLine) -> None:
        self.lines += line.lines
        self.billed += line.cost_usd
        is_counted = self.billed_tokens is not None and line.tokens is not None
        self.billed_tokens = self.billed_tokens + line.tokens if is_counted else None  # type: ignore[operator]

    @property
    def parts(self) -> "dict[int | None, _Found]":
        """Its hours where all is known of them, otherwise itself. A bill whose lines are all of midnight has days."""
        hours = self.hours.values()
        has_hours = any(hour and each.lines for hour, each in self.hours.items())
        has_details = sum(each.known.completions for each in hours) == self.known.completions
        has_details = has_details and sum(each.known.tokens for each in hours) == self.known.tokens
        is_known = has_hours and has_details and all(each.expected_nanos is not None for each in (self, *hours))
        return self.hours if is_known else {None: self}


_ByName = dict[str, _Found]


def compare_recent() -> None:
    """Compare the days of the last month anew: prices and names may have been corrected."""
    since = pool.database_time().date() - timedelta(days=_RECENT_DAYS)
    bills = Bill.objects.filter(finished_at__isnull=False).values_list("provider", "days")
    for provider_id, day in {(provider_id, day) for provider_id, days in bills for day in days if day >= since}:
        compare(provider_id, day)


def compare_name(said: BilledModel) -> None:
    """Compare the last days on which bills have a name anew."""
    days = BillLine.objects.filter(bill__provider=said.provider_id, name=said.name).values_list("day", flat=True)
    compare(said.provider_id, *days.order_by("-day").distinct()[:_RECENT_DAYS])


def difference(row: BillComparison) -> Decimal | None:
    """Return what was billed above the expected cost in US dollars; None where that is not known."""
    return None if row.expected_nanos is None else EXACT.subtract(row.billed_usd, _dollars(row.expected_nanos))


def plain(exact: Decimal) -> str:
    """Write all digits of an amount in US dollars, for programs: "-0.0000000000125"."""
    return f"{EXACT.normalize(exact):f}"


def in_dollars(exact: Decimal) -> str:
    """Write all digits, for people: "-$1,200.50"."""
    whole, _, fraction = f"{EXACT.normalize(abs(exact)):,f}".partition(".")
    return f"{'-' if exact < 0 else ''}${whole}.{fraction.ljust(2, '0')}"


def compare(provider_id: str, *days: date) -> None:
    """Write the comparisons of days anew. Safe at any time and concurrently."""
    for day in days:
        with transaction.atomic(), localcontext(EXACT):
            cell.take_turn(f"bills of {provider_id} {day}")
            BillComparison.objects.filter(provider=provider_id, day=day).delete()
            bills = Bill.objects.filter(provider=provider_id, days__contains=[day], finished_at__isnull=False)
            rows = _compare(newest, day) if (newest := bills.order_by("-pk").first()) else iter(())
            while chunk := list(islice(rows, _CHUNK)):
                BillComparison.objects.bulk_create(chunk)


def _compare(bill: Bill, day: date) -> Iterator[BillComparison]:
    found: _ByName = defaultdict(_Found)
    _read_known(bill, day, found, "day")
    _read_bill(bill, day, found)
    if any(hour for each in found.values() for hour in each.hours):
        _read_known(bill, day, found, "hour")
    rows = (_row(bill, day, *pair) for pair in sliced(found.items()))
    return (row for row in rows if row.completions or row.lines or row.charged_nanos)


def _read_known(bill: Bill, day: date, found: _ByName, unit: str) -> None:
    """Read what is known of the day into the models, or what is known of its hours into theirs."""
    for model_id, hour, shift, *figures in expected.usage(bill.provider_id, day, unit):
        used = found[model_id].part(hour).used
        used[shift] = Used(*(one + int(other) for one, other in zip(used[shift], figures, strict=True)))
    for model_id, hour, *nanos in expected.uncertain(bill.provider_id, day, unit):
        each, border = found[model_id].part(hour), "midnight" if hour is None else "hour"
        for reason, less, more in ((border, *nanos[:2]), ("estimates", *nanos[2:4]), ("failures", 0, nanos[4])):
            each.less[reason] += _dollars(less)
            each.more[reason] += _dollars(more)


def _read_bill(bill: Bill, day: date, found: _ByName) -> None:
    resolve, kept_days = names.resolver(bill.provider_id, list(found)), settings.RETENTION_DETAIL_DAYS
    are_kept = kept_days is None or day > pool.database_time().date() - timedelta(days=kept_days)
    lines = BillLine.objects.filter(bill=bill, day=day).iterator(chunk_size=_CHUNK)
    for line, model_id in sliced(_with_models(bill, day, lines)):
        is_unknown_request = bool(line.request_id and are_kept and not model_id)
        model_id = model_id or ("" if is_unknown_request else resolve(line.name))
        each = found[f"{line.name[:270]}, unknown requests" if is_unknown_request else model_id or line.name]
        each.finding = _Finding.UNKNOWN_REQUEST if is_unknown_request else "" if model_id else _Finding.UNKNOWN_MODEL
        for place in (each,) if line.hour is None else (each, each.hours[line.hour]):
            place.add(line)


def _with_models(bill: Bill, day: date, lines: Iterator[BillLine]) -> Iterator[tuple[BillLine, str | None]]:
    while chunk := list(islice(lines, _CHUNK)):
        models = models_of_requests(bill, day, [line.request_id for line in chunk if line.request_id])
        yield from ((line, models.get(line.request_id)) for line in chunk)


def models_of_requests(bill: Bill, day: date, request_ids: list[str]) -> dict[str | None, str]:
    """Return the models of the completions that have a provider's ids, by these ids."""
    since, until = expected.ids(day, _REQUESTS_TIME)
    ours = Completion.objects.filter(provider=bill.provider_id, own_key_fee=None, id__gte=since, id__lt=until)
    asked = ours.filter(provider_request_id__in=request_ids).values_list("provider_request_id", "model_id")
    return dict(everywhere.gather(lambda: asked)) if request_ids else {}


def _row(bill: Bill, day: date, name: str, each: _Found) -> BillComparison:
    reasons, unexplained, hours = defaultdict[str, Decimal](Decimal), Decimal(0), list[dict[str, Any]]()
    for hour, part in sorted(each.parts.items(), key=lambda pair: pair[0] or 0):
        explained = {} if each.expected_nanos is None else _explain(bill, day, part)
        for reason, of in explained.items():
            reasons[reason] += of
        rest = part.rest - sum(explained.values())
        unexplained += rest
        if rest and hour is not None:
            amounts = {"expected": _dollars(part.known.expected_nanos), "billed": part.billed, "unexplained": rest}
            hours.append({"hour": hour, **{name: plain(of) for name, of in amounts.items()}})
    reasons["rounding"] += each.rest - unexplained - sum(reasons.values())  # costs of hours are rounded up, too
    return BillComparison(
        **{"provider_id": bill.provider_id, "bill": bill, "day": day, "name": name},
        **{"completions": each.known.completions, "lines": each.lines, "charged_nanos": each.known.charged_nanos},
        **{"expected_nanos": each.expected_nanos, "billed_usd": each.billed},
        reasons={reason: plain(explained) for reason, explained in reasons.items() if explained},
        **{"unexplained_usd": unexplained, "hours": hours},
        hours_usd=sum((abs(Decimal(hour["unexplained"])) for hour in hours), Decimal(0)),
        finding=each.finding or _find(each, unexplained, reasons, bool(hours)),
    )


def _explain(bill: Bill, day: date, each: _Found) -> dict[str, Decimal]:
    """Return how much of a difference each reason explains, one after the other."""
    reasons, rest, cost = dict[str, Decimal](), each.rest, each.known.expected_nanos
    if abs(rest) <= bill.rounding_usd * each.lines + _dollars(1):  # it is no part of a larger difference
        return {"rounding": rest} if rest else {}
    known = [used.expected_nanos for used in each.used.values() if used.is_priced]
    each.less["price"], each.more["price"] = _dollars(cost - min(known)), _dollars(max(known) - cost)
    final_days = next((form.final_days for form in FORMATS if form.title == bill.format), 1)
    is_early = day + timedelta(days=final_days) > bill.begun_at.astimezone(UTC).date()
    each.less["early"] = _dollars(cost if is_early else 0)
    for reason in REASONS:
        if explained := max(-each.less[reason], min(each.more[reason], rest)):
            reasons[reason] = explained
            rest -= explained
    return reasons


def _find(each: _Found, rest: Decimal, reasons: dict[str, Decimal], has_hours: bool) -> str:
    if each.expected_nanos is None:
        return _Finding.NO_PRICE
    if not rest:
        return _Finding.HOURS if has_hours else _Finding.EARLY if reasons.get("early") else ""
    if not each.lines or not each.known.completions:
        return _Finding.NOT_USED if each.lines else _Finding.NOT_BILLED
    if each.billed_tokens is None:
        return ""
    return _Finding.OTHER_PRICE if each.billed_tokens == each.known.tokens else _Finding.OTHER_TOKENS


def _dollars(nanos: Any) -> Decimal:
    return EXACT.scaleb(Decimal(nanos), -9)
