"""Compares the bills of a provider with what is known of its days, and keeps the result for pages, metrics and the command.

Of each model: what callers were charged, what the catalog expects the provider to charge (``statistics.margins``), and what it
billed. Each reason can explain a difference between two bounds; what exceeds them all is unexplained.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext
from itertools import islice

from django.conf import settings
from django.db import transaction
from django.db.models import F, Sum

from completions.bills import names
from completions.bills.formats import FORMATS
from completions.bills.reading import EXACT
from completions.models import Bill, BillComparison, BillDay, BilledModel, BillLine, Completion, ProviderDay
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


@dataclass
class _Found:
    """A model on a day. Each reason explains a difference from -``less`` to ``more``, in US dollars."""

    completions: int = 0
    charged_nanos: int = 0
    expected_nanos: int | None = 0
    tokens: int = 0
    lines: int = 0
    billed: Decimal = Decimal(0)
    billed_tokens: int | None = 0
    less: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    more: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    finding: str = ""


_ByName = dict[str, _Found]


def compare_recent() -> int:
    """Compare the days of the last month anew: prices and names may have been corrected. Return how many days."""
    since = pool.database_time().date() - timedelta(days=_RECENT_DAYS)
    days = BillDay.objects.filter(day__gte=since, bill__finished_at__isnull=False)
    found = list(days.values_list("bill__provider", "day").distinct())
    for provider_id, day in found:
        compare(provider_id, day)
    return len(found)


def compare_name(said: BilledModel) -> None:
    """Compare the last days on which bills have a name anew."""
    days = BillLine.objects.filter(bill__provider=said.provider_id, name=said.name).values_list("day", flat=True)
    compare_days(said.provider_id, list(days.order_by("-day").distinct()[:_RECENT_DAYS]))


def compare_days(provider_id: str, days: Iterable[date]) -> None:
    for day in days:
        compare(provider_id, day)


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


def current_bill(provider_id: str, day: date) -> Bill | None:
    """Return the newest bill that has the day."""
    return Bill.objects.filter(provider=provider_id, days__day=day, finished_at__isnull=False).order_by("-pk").first()


def compare(provider_id: str, day: date) -> None:
    """Write the comparisons of a day anew. Safe at any time and concurrently."""
    with transaction.atomic(), localcontext(EXACT):
        cell.take_turn(f"bills of {provider_id} {day}")
        rows = []
        if bill := current_bill(provider_id, day):
            found: _ByName = defaultdict(_Found)
            _read_usage(bill, day, found)
            _read_bill(bill, day, found)
            _read_uncertain(bill, day, found)
            rows = [_row(bill, day, *pair) for pair in found.items()]
        BillComparison.objects.filter(provider=provider_id, day=day).delete()
        BillComparison.objects.bulk_create(row for row in rows if row.completions or row.lines or row.charged_nanos)


def _read_usage(bill: Bill, day: date, found: _ByName) -> None:
    costs = {shift: _expect(bill, day, shift) for shift in (0, -1, 1)}
    for model_id, (completions, charged, priced, cost) in costs[0].items():
        each = found[model_id]
        each.completions, each.charged_nanos, each.expected_nanos = completions, charged, cost if priced == charged else None
        known = [sums[model_id][3] for sums in costs.values() if sums[model_id][2] == charged] or [cost]
        each.less["price"], each.more["price"] = _dollars(cost - min(known)), _dollars(max(known) - cost)
    counted = ProviderDay.objects.filter(provider=bill.provider_id, day=day).values_list("model_id")
    for model_id, tokens in everywhere.gather(lambda: counted.annotate(tokens=_TOKENS)):
        found[model_id].tokens += tokens


def _expect(bill: Bill, day: date, shift: int) -> dict[str, list[int]]:
    """Return of each model completions, charges, those with a known cost, and the cost, at prices of ``shift`` days later."""
    sql = margins.statement("day = %(day)s AND provider_id = %(provider)s", "used.model_id", f"used.day + ({shift})")
    sums: dict[str, list[int]] = defaultdict(lambda: [0] * 4)
    for model_id, *figures in everywhere.gather(lambda: cell.execute(sql, {"day": day, "provider": bill.provider_id})):
        sums[model_id] = [one + int(other) for one, other in zip(sums[model_id], figures, strict=True)]
    return sums


def _read_bill(bill: Bill, day: date, found: _ByName) -> None:
    resolve, kept_days = names.resolver(bill.provider_id, list(found)), settings.RETENTION_DETAIL_DAYS
    are_kept = kept_days is None or day > pool.database_time().date() - timedelta(days=kept_days)
    lines = BillLine.objects.filter(bill=bill, day=day).iterator(chunk_size=_CHUNK)
    while chunk := list(islice(lines, _CHUNK)):
        models = models_of_requests(bill, day, chunk)
        for line in chunk:
            model_id = models.get(line.request_id)
            is_unknown_request = bool(line.request_id and are_kept and not model_id)
            model_id = model_id or ("" if is_unknown_request else resolve(line.name))
            each = found[f"{line.name[:270]}, unknown requests" if is_unknown_request else model_id or line.name]
            each.finding = _Finding.UNKNOWN_REQUEST if is_unknown_request else "" if model_id else _Finding.UNKNOWN_MODEL
            each.lines += line.lines
            each.billed += line.cost_usd
            is_counted = each.billed_tokens is not None and line.tokens is not None
            each.billed_tokens = each.billed_tokens + line.tokens if is_counted else None  # type: ignore[operator]


def models_of_requests(bill: Bill, day: date, lines: list[BillLine]) -> dict[str | None, str]:
    """Return the models of the completions whose provider's ids the lines have, by these ids."""
    asked_ids = [line.request_id for line in lines if line.request_id]
    since, until = ids(day, _REQUESTS_TIME)
    ours = Completion.objects.filter(provider=bill.provider_id, own_key_fee=None, id__gte=since, id__lt=until)
    asked = ours.filter(provider_request_id__in=asked_ids).values_list("provider_request_id", "model_id")
    return dict(everywhere.gather(lambda: asked)) if asked_ids else {}


def ids(day: date, further: timedelta = timedelta()) -> tuple[str, str]:
    """Return the least ids of completions from a day on, and after it."""
    begin = datetime.combine(day, time(), UTC)
    return Completion.least_id(begin - further), Completion.least_id(begin + timedelta(days=1) + further)


def _read_uncertain(bill: Bill, day: date, found: _ByName) -> None:
    begin, (first_id, until_id) = datetime.combine(day, time(), UTC), ids(day)
    values = {"provider": bill.provider_id, "since": begin, "until": begin + timedelta(days=1)}
    values |= {"since_id": Completion.least_id(begin - _LONGEST_TIME), "first_id": first_id, "until_id": until_id}
    for model_id, *nanos in everywhere.gather(lambda: cell.execute(_UNCERTAIN, values)):
        began_before, ended_after, estimated, above_estimates, failed = (_dollars(int(each)) for each in nanos)
        less, more = found[model_id].less, found[model_id].more
        less["midnight"] += began_before
        more["midnight"] += ended_after
        less["estimates"] += estimated
        more["estimates"] += above_estimates
        more["failures"] += failed


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
    expected = None if each.finding else each.expected_nanos
    rest = each.billed - _dollars(expected or 0)
    reasons = {} if expected is None else _explain(bill, day, each, rest)
    rest -= sum(reasons.values())
    return BillComparison(
        **{"provider_id": bill.provider_id, "bill": bill, "day": day, "name": name},
        **{"completions": each.completions, "lines": each.lines},
        **{"charged_nanos": each.charged_nanos, "expected_nanos": expected, "billed_usd": each.billed},
        reasons={reason: plain(explained) for reason, explained in reasons.items()},
        unexplained_usd=rest,
        finding=each.finding or _find(each, rest, reasons),
    )


def _explain(bill: Bill, day: date, each: _Found, rest: Decimal) -> dict[str, Decimal]:
    """Return how much of a difference each reason explains, one after the other."""
    reasons: dict[str, Decimal] = {}
    if abs(rest) <= bill.rounding_usd * each.lines + _dollars(1):  # it is no part of a larger difference
        return {"rounding": rest} if rest else {}
    each.less["early"] = _dollars(each.expected_nanos or 0) if _is_early(bill, day) else Decimal(0)
    for reason in REASONS:
        if explained := max(-each.less[reason], min(each.more[reason], rest)):
            reasons[reason] = explained
            rest -= explained
    return reasons


def _is_early(bill: Bill, day: date) -> bool:
    final_days = next((form.final_days for form in FORMATS if form.title == bill.format), 1)
    return day + timedelta(days=final_days) > bill.begun_at.astimezone(UTC).date()


def _find(each: _Found, rest: Decimal, reasons: dict[str, Decimal]) -> str:
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
