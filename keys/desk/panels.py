"""The panel of refusals on the admin's home page."""

from collections import Counter
from datetime import datetime

from django.db.models import Sum

from gateway_project import bar_chart
from gateway_project.db import everywhere
from gateway_project.desk.panels import Content, Panel, Row
from keys.models import RefusalCount
from keys.refusal_history import summaries

REASONS_SHOWN = 6


def _refusals(now: datetime) -> Content:
    hours = summaries.last_hours(now)
    columns = ("hour", "status", "code", "error")
    ordered = (
        RefusalCount.objects.filter(hour__gte=hours[0]).values_list(*columns).annotate(sum=Sum("number")).order_by(*columns)
    )
    by_hour, by_reason = Counter[datetime](), Counter[tuple[str, str]]()
    for hour, status, code, error, number in everywhere.gather(ordered.all, may_miss=True):
        by_hour[hour] += int(number)
        by_reason[summaries.describe_error(error), f"{status} {code}"] += int(number)
    return Content(
        f"{by_reason.total():,}",
        "in the last 24 hours",
        rows=[Row(words, f"{number:,}", code=code) for (words, code), number in by_reason.most_common(REASONS_SHOWN)],
        chart=bar_chart.build([(hour, by_hour[hour], f"{by_hour[hour]:,}") for hour in hours], "Refusals of each hour"),
    )


PANELS = [Panel(40, "refusals", "Refusals", "keys.refusalcount", _refusals, "?o=-1")]
