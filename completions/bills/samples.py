"""Lines of a bill and completions of ours that show what a comparison is about, as facts for the page and the command."""

from typing import Any

from django.db.models import Q

from completions.bills import comparison, expected, names
from completions.models import BillComparison, BillLine, Completion
from gateway_project.db import everywhere
from gateway_project.large_work import sliced
from gateway_project.text import dollars

SHOWN = 10
_LINES_LOOKED_AT = 1_000

Facts = dict[str, Any]  # amounts are plain US dollars


def lines(row: BillComparison) -> list[Facts]:
    """Return the lines that cost most, where there are hours that do not agree, of these."""
    return [
        {
            **{"line": each.first_line, "lines": each.lines, "name": each.name, "hour": each.hour, "account": each.account},
            **{"request": each.request_id, "tokens": each.tokens, "cost": comparison.plain(each.cost_usd)},
        }
        for each in _lines(row)
    ]


def _lines(row: BillComparison) -> list[BillLine]:
    hours = {"hour__in": row.unequal_hours} if row.hours else {}
    dearest = BillLine.objects.filter(bill=row.bill_id, day=row.day, **hours).order_by("-cost_usd")
    if row.finding == BillComparison.Finding.UNKNOWN_REQUEST:
        some = list(dearest[:_LINES_LOOKED_AT])
        models = comparison.models_of_requests(row.bill, row.day, [line.request_id for line in some])
        return [line for line in some if line.request_id not in models][:SHOWN]
    resolve = names.resolver(row.provider_id, [row.name])
    told = dearest.order_by("name").values_list("name", flat=True).distinct()
    return list(dearest.filter(name__in=[name for name in sliced(told) if (resolve(name) or name) == row.name])[:SHOWN])


def completions(row: BillComparison) -> list[Facts]:
    """Return some completions: first those whose cost at the provider is uncertain, then the latest."""
    (since, until), hours = expected.ids(row.day), {"finished_at__hour__in": row.unequal_hours} if row.hours else {}
    asked = Completion.objects.filter(id__gte=since, id__lt=until, model=row.name, own_key_fee=None, **hours).order_by("-id")
    failed = Q(failed_attempts__contains=[{"provider": row.provider_id}])
    uncertain = asked.filter(failed | Q(provider=row.provider_id) & ~Q(settlement=Completion.Settlement.REPORTED))
    sure = asked.filter(provider=row.provider_id, settlement=Completion.Settlement.REPORTED)
    return [
        {
            **{"completion": each.pk, "ended": each.finished_at and f"{each.finished_at:%H:%M:%S}"},
            **{"settlement": each.settlement or "runs", "failed": len(each.failed_attempts or ())},
            **{"input": each.prompt_tokens, "output": each.completion_tokens},
            **{"charged": dollars.format_plain(each.cost_nanos or 0), "request": each.provider_request_id},
        }
        for each in everywhere.gather(lambda: [*uncertain[: SHOWN // 2], *sure[: SHOWN // 2]])[:SHOWN]
    ]
