"""Compares the bills of a provider with what is known of its days, and keeps the result for pages, metrics and the command.

Of each model: what callers were charged, what the catalog expects the provider to charge (``statistics.margins``), and what it
billed. Each reason can explain a difference between two bounds; what exceeds them all is unexplained.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Sum

from completions.bills import names
from completions.bills.formats import FORMATS
from completions.bills.reading import EXACT
from completions.models import Bill, BillComparison, BillDay, BilledModel, BillLine, Completion, Provider, ProviderDay
from completions.statistics import margins
from gateway_project.db import cell, everywhere, pool

REASONS = {
    "early": "the export was made before the figures were final",
    "midnight": "requests across midnight (UTC)",
    "estimates": "requests whose tokens are estimates",
    "failures": "attempts that failed or were abandoned",
    "price": "the provider's price changed",
    "rounding": "rounded costs",
}
_RECENT_DAYS = 31  # less than details of completions are kept: later they explain nothing
_LONGEST_TIME = timedelta(hours=2)  # of a completion that began on the day before
_REQUESTS_TIME = timedelta(days=1)  # by which clocks, and the times of bills, may differ
_CHUNK = 1_000
_Finding = BillComparison.Finding
_TOKENS = Sum(F("prompt_tokens") + F("completion_tokens"))
_ZERO = Decimal(0)


@dataclass
class _Found:
    """A model on a day. ``bounds``: between which amounts in US dollars each reason explains a difference."""

    completions: int = 0
    charged_nanos: int = 0
    expected_nanos: int | None = 0
    tokens: int = 0
    lines: int = 0
    billed: Decimal = _ZERO
    billed_tokens: int | None = 0
    bounds: dict[str, tuple[Decimal, Decimal]] = field(default_factory=dict)
    finding: str = ""


def compare_days(provider: Provider, days: Iterable[date]) -> None:
    for day in days:
        compare(provider, day)


def compare_recent() -> int:
    """Compare the days of the last month anew: prices and names may have been corrected. Return how many days."""
    since, number = pool.database_time().date() - timedelta(days=_RECENT_DAYS), 0
    for provider in Provider.objects.filter(pk__in=Bill.objects.values("provider")):
        days = BillDay.objects.filter(bill__provider=provider, day__gte=since).values_list("day", flat=True).distinct()
        compare_days(provider, days)
        number += len(days)
    return number


def compare_name(said: BilledModel) -> None:
    """Compare the last days on which bills have a name anew."""
    days = BillLine.objects.filter(bill__provider=said.provider, name=said.name).values_list("day", flat=True)
    compare_days(said.provider, list(days.order_by("-day").distinct()[:_RECENT_DAYS]))


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


def current_bill(provider: Provider, day: date) -> Bill | None:
    """Return the newest bill that has the day."""
    complete = Bill.objects.filter(provider=provider, days__day=day, finished_at__isnull=False)
    return complete.order_by("-pk").first()


def compare(provider: Provider, day: date) -> None:
    """Write the comparisons of a day anew. Safe at any time and concurrently."""
    with transaction.atomic():
        cell.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"bills of {provider.pk} {day}"])
        bill, rows = current_bill(provider, day), []
        if bill:
            found = _read(provider, day, bill)
            rows = [
                _row(bill, day, name, each)
                for name, each in found.items()
                if each.completions or each.lines or each.charged_nanos
            ]
        BillComparison.objects.filter(provider=provider, day=day).delete()
        BillComparison.objects.bulk_create(rows)


def _read(provider: Provider, day: date, bill: Bill) -> dict[str, _Found]:
    found: dict[str, _Found] = defaultdict(_Found)
    _read_usage(provider, day, found)
    _read_bill(provider, day, bill, found)
    _read_uncertain(provider, day, found)
    final_days = next((form.final_days for form in FORMATS if form.title == bill.format), 1)
    is_early = day + timedelta(days=final_days) > bill.begun_at.astimezone(UTC).date()
    for each in found.values():
        rounding = EXACT.add(EXACT.multiply(bill.rounding_usd, Decimal(each.lines)), Decimal("1e-9"))
        each.bounds["rounding"] = (-rounding, rounding)
        if is_early:
            each.bounds["early"] = (-_dollars(each.expected_nanos or 0), _ZERO)
    return found


def _read_usage(provider: Provider, day: date, found: dict[str, _Found]) -> None:
    costs = {shift: _expect(provider, day, shift) for shift in (0, -1, 1)}
    for model_id, (completions, charged, priced, cost) in costs[0].items():
        each = found[model_id]
        each.completions, each.charged_nanos, each.expected_nanos = completions, charged, cost if priced == charged else None
        shifted = [sums[model_id][3] - cost for sums in costs.values() if sums[model_id][2] == charged]
        each.bounds["price"] = (_dollars(min(0, *shifted, 0)), _dollars(max(0, *shifted, 0)))
    counted = ProviderDay.objects.filter(provider=provider, day=day).values_list("model_id")
    for model_id, tokens in everywhere.gather(lambda: counted.annotate(tokens=_TOKENS)):
        found[model_id].tokens += tokens


def _expect(provider: Provider, day: date, shift: int) -> dict[str, list[int]]:
    """Return of each model completions, charges, those with a known cost, and the cost, at prices of ``shift`` days later."""
    sql = margins.statement("day = %(day)s AND provider_id = %(provider)s", "used.model_id", f"used.day + ({shift})")
    sums: dict[str, list[int]] = {}
    for model_id, *figures in everywhere.gather(partial(cell.execute, sql, {"day": day, "provider": provider.pk})):
        sums[model_id] = [one + int(other) for one, other in zip(sums.get(model_id, [0] * 4), figures, strict=True)]
    return sums


def _read_bill(provider: Provider, day: date, bill: Bill, found: dict[str, _Found]) -> None:
    resolve, kept_days = names.resolver(provider, list(found)), settings.RETENTION_DETAIL_DAYS
    are_kept = kept_days is None or day > pool.database_time().date() - timedelta(days=kept_days)
    for line, model_id in _with_models(BillLine.objects.filter(bill=bill, day=day).order_by("pk"), day, provider):
        finding = _Finding.UNKNOWN_REQUEST if line.request_id and are_kept and not model_id else ""
        model_id = model_id or ("" if finding else resolve(line.name))
        name = f"{line.name[:270]}, unknown requests" if finding else model_id or line.name
        each = found[name]
        each.finding = finding or ("" if model_id else _Finding.UNKNOWN_MODEL)
        each.lines += line.lines
        each.billed = EXACT.add(each.billed, line.cost_usd)
        if each.billed_tokens is not None:
            each.billed_tokens = None if line.tokens is None else each.billed_tokens + line.tokens


def _with_models(lines: Any, day: date, provider: Provider) -> Iterator[tuple[BillLine, str]]:
    """Yield each line with the model of the request that it names, or "". Requests are looked up some at a time."""
    rows = lines.iterator(chunk_size=_CHUNK)
    for chunk in iter(lambda: list(islice(rows, _CHUNK)), []):
        yield from look_up(chunk, day, provider)


def look_up(lines: list[BillLine], day: date, provider: Provider) -> Iterator[tuple[BillLine, str]]:
    asked_ids = [line.request_id for line in lines if line.request_id]
    since, until = ids(day, _REQUESTS_TIME)
    ours = Completion.objects.filter(provider=provider, own_key_fee=None, id__gte=since, id__lt=until)
    asked = ours.filter(provider_request_id__in=asked_ids)
    models = dict(everywhere.gather(lambda: asked.values_list("provider_request_id", "model_id")) if asked_ids else ())
    return ((line, models.get(line.request_id, "")) for line in lines)


def ids(day: date, further: timedelta = timedelta()) -> tuple[str, str]:
    """Return the least ids of completions from a day on, and after it."""
    begin = datetime.combine(day, time(), UTC)
    return Completion.least_id(begin - further), Completion.least_id(begin + timedelta(days=1) + further)


def _read_uncertain(provider: Provider, day: date, found: dict[str, _Found]) -> None:
    begin = datetime.combine(day, time(), UTC)
    first_id, until_id = ids(day)
    values = {"provider": provider.pk, "since": begin, "until": begin + timedelta(days=1), "first_id": first_id}
    values |= {"since_id": Completion.least_id(begin - _LONGEST_TIME), "until_id": until_id}
    for model_id, *nanos in everywhere.gather(lambda: cell.execute(_UNCERTAIN, values)):
        began_before, ended_after, estimated, above_estimates, failed = (_dollars(int(each)) for each in nanos)
        for reason, bounds in {
            "midnight": (-began_before, ended_after),
            "estimates": (-estimated, above_estimates),
            "failures": (_ZERO, failed),
        }.items():
            earlier = found[model_id].bounds.get(reason, (_ZERO, _ZERO))
            found[model_id].bounds[reason] = (earlier[0] + bounds[0], earlier[1] + bounds[1])


# The provider bills an account's own key to the account. A hold bounds how much more than an estimate a provider can have
# counted. With a status of 4xx it charged nothing.
_UNCERTAIN = """
    SELECT model_id,
        coalesce(sum(cost_nanos) FILTER (WHERE is_own AND began_before AND ended_within), 0),
        coalesce(sum(cost_nanos) FILTER (WHERE is_own AND NOT began_before AND NOT ended_within), 0),
        coalesce(sum(cost_nanos) FILTER (WHERE is_own AND ended_within AND is_estimate), 0),
        coalesce(sum(greatest(held_nanos - cost_nanos, 0)) FILTER (WHERE is_own AND ended_within AND is_estimate), 0),
        coalesce(sum(held_nanos * failures) FILTER (WHERE NOT began_before), 0)
    FROM (
        SELECT model_id, cost_nanos, coalesce(held_nanos, cost_nanos) AS held_nanos, provider_id = %(provider)s AS is_own,
            id < %(first_id)s AS began_before, finished_at >= %(since)s AND finished_at < %(until)s AS ended_within,
            settlement IN ('estimated', 'partial', 'recovered', 'corrected') AS is_estimate,
            CASE
                WHEN failed_attempts IS NOT NULL THEN (
                    SELECT count(*) FROM jsonb_array_elements(failed_attempts) AS failure
                    WHERE failure ->> 'provider' = %(provider)s AND coalesce(failure ->> 'status', '') !~ '^4'
                )
                WHEN provider_id = %(provider)s AND settlement IN ('released', 'expired') THEN 1 ELSE 0
            END AS failures
        FROM completions_completion WHERE id >= %(since_id)s AND id < %(until_id)s
            AND settlement IS NOT NULL AND own_key_fee IS NULL
    ) AS ended
    WHERE is_own OR failures > 0 GROUP BY model_id
"""


def _row(bill: Bill, day: date, name: str, each: _Found) -> BillComparison:
    rest, reasons = EXACT.subtract(each.billed, _dollars(each.expected_nanos or 0)), {}
    can_be_explained = each.expected_nanos is not None and not each.finding
    is_rounded = abs(rest) <= each.bounds["rounding"][1]
    for reason in (["rounding"] if is_rounded else REASONS) if can_be_explained else ():
        low, high = each.bounds.get(reason, (_ZERO, _ZERO))
        if reason == "rounding" and abs(rest) > high:  # it is no part of a larger difference
            continue
        if explained := max(low, min(high, rest)):
            reasons[reason] = plain(explained)
            rest = EXACT.subtract(rest, explained)
    return BillComparison(
        provider_id=bill.provider_id,
        bill=bill,
        day=day,
        name=name,
        completions=each.completions,
        lines=each.lines,
        charged_nanos=each.charged_nanos,
        expected_nanos=None if each.finding else each.expected_nanos,
        billed_usd=each.billed,
        reasons=reasons,
        unexplained_usd=rest,
        finding=each.finding or _find(each, rest, reasons),
    )


def _find(each: _Found, rest: Decimal, reasons: dict[str, str]) -> str:
    if not rest:
        return _Finding.EARLY if "early" in reasons else ""
    if each.expected_nanos is None:
        return _Finding.NO_PRICE
    if not each.lines or not each.completions:
        return _Finding.NOT_USED if each.lines else _Finding.NOT_BILLED
    if each.billed_tokens is None:
        return ""
    return _Finding.OTHER_PRICE if each.billed_tokens == each.tokens else _Finding.OTHER_TOKENS


def _dollars(nanos: int) -> Decimal:
    return EXACT.scaleb(Decimal(nanos), -9)
