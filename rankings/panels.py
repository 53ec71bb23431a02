"""The panels of the rankings on the admin's home page."""

from datetime import datetime

from django.urls import reverse

from gateway_project.desk.panels import Content, Panel, Row
from rankings.identity import mapping
from rankings.publishing import health


def _sources(now: datetime) -> Content:
    reports = health.report(now)
    ill = [each for each in reports if not each.is_healthy and not each.reason.startswith("off:")]
    rows = [Row(each.source.label, each.reason, _page_of(each)) for each in ill]
    return Content(str(len(ill)), f"of {len(reports)} sources are not healthy", rows=rows, needs_attention=bool(ill))


def _page_of(report: health.SourceHealth) -> str:
    if not report.is_held:
        return reverse("admin:rankings_sourcestate_changelist")
    return f"{reverse('admin:rankings_snapshot_changelist')}?source__exact={report.source}&held_because__isempty=0"


def _names(now: datetime) -> Content:
    return Content(f"{sum(mapping.count_unmatched().values()):,}", "source names are not mapped to a model yet")


PANELS = [
    Panel(75, "sources", "Stale ranking sources", "rankings.sourcestate", _sources),
    Panel(85, "names", "Pending aliases", "rankings.alias", _names, verb="add", page="queue"),
]
