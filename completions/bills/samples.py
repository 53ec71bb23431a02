"""Lines of a bill and completions of ours that show what a comparison is about."""

from django.db.models import Q

from completions.bills import comparison, expected, names
from completions.models import BillComparison, BillLine, Completion
from gateway_project.db import everywhere

SHOWN = 10
_LINES_LOOKED_AT = 1_000


def lines(row: BillComparison) -> list[BillLine]:
    """Return the lines that cost most."""
    dearest = BillLine.objects.filter(bill=row.bill_id, day=row.day, **_in_hours(row, "hour")).order_by("-cost_usd")
    if row.finding == BillComparison.Finding.UNKNOWN_REQUEST:
        some = list(dearest[:_LINES_LOOKED_AT])
        models = comparison.models_of_requests(row.bill, row.day, some)
        return [line for line in some if line.request_id not in models][:SHOWN]
    resolve = names.resolver(row.provider_id, [row.name])
    known = [
        name
        for name in dearest.order_by("name").values_list("name", flat=True).distinct()
        if (resolve(name) or name) == row.name
    ]
    return list(dearest.filter(name__in=known)[:SHOWN])


def completions(row: BillComparison) -> list[Completion]:
    """Return some completions: first those whose cost at the provider is uncertain, then the latest."""
    since, until = expected.ids(row.day)
    asked = Completion.objects.filter(id__gte=since, id__lt=until, model=row.name, own_key_fee=None).order_by("-id")
    asked = asked.filter(**_in_hours(row, "finished_at__hour"))
    failed = Q(failed_attempts__contains=[{"provider": row.provider_id}])
    uncertain = asked.filter(failed | Q(provider=row.provider_id) & ~Q(settlement=Completion.Settlement.REPORTED))
    sure = asked.filter(provider=row.provider_id, settlement=Completion.Settlement.REPORTED)
    return everywhere.gather(lambda: [*uncertain[: SHOWN // 2], *sure[: SHOWN // 2]])[:SHOWN]


def _in_hours(row: BillComparison, column: str) -> dict[str, list[int]]:
    """Narrow to the hours that do not agree, where the bill has hours."""
    return {f"{column}__in": [each["hour"] for each in row.hours]} if row.hours else {}
