"""The activity log in the admin: a read-only list with filters, and its CSV file."""

import json
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST

from gateway_project.activity import log
from gateway_project.activity.keyset import NewestFirstAdmin
from gateway_project.activity.models import Activity
from gateway_project.text import csv_text, timestamps

EXPORTED_MAX = 10_000
_COLUMNS = ["at", "who", "act", "summary", "account", "objectType", "object", "before", "after"]
_COLUMNS += ["reason", "ticket", "requestId", "address"]


class ActFilter(admin.SimpleListFilter):
    title = "act"
    parameter_name = "act"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(act.value, act.label) for act in Activity.Act]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Activity]) -> QuerySet[Activity]:
        return queryset.filter(act=self.value()) if self.value() else queryset


@admin.register(Activity)
class ActivityAdmin(NewestFirstAdmin):
    change_list_template = "admin/activity/activity/change_list.html"
    own_pages = {"export/": "export"}
    list_display = ("at", "who", "summary", "object_text", "reason", "ticket")
    list_filter = (ActFilter, ("at", admin.DateFieldListFilter))
    list_select_related = ("actor",)
    search_fields = ("actor__email__iexact", "object_id__exact", "ticket__exact", "request_id__exact")
    search_help_text = "Email address of the person, ID of the changed object, ticket, or request ID."
    fields = (
        *("at", "who", "summary", "before", "after", "reason", "ticket"),
        *("object_type", "object_id", "object_text", "account_id", "request_id", "address"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Activity]:
        return log.readable(request.user).order_by("-pk")

    @method_decorator(require_POST)
    def export_view(self, request: HttpRequest) -> HttpResponse:
        """Download the acts that the filters in the query string select, newest first. That is an act, too."""
        if not (self.has_view_permission(request) and request.user.has_perm("activity.export_activity")):
            raise PermissionDenied
        assert isinstance(request.user, AbstractBaseUser)  # admin_view admits staff only
        with transaction.atomic():
            found = self._select(request)
            summary = f"Downloaded {len(found)} act{'' if len(found) == 1 else 's'}."
            log.record(request, Activity.Act.EXPORTED, request.user, summary, after={"filters": request.GET.dict()})
        content = csv_text.write_lines([_COLUMNS, *map(_row, found)])
        return HttpResponse(content, "text/csv", headers={"Content-Disposition": 'attachment; filename="activity.csv"'})

    def _select(self, request: HttpRequest) -> list[Activity]:
        try:
            return list(self.get_changelist_instance(request).get_queryset(request)[:EXPORTED_MAX])
        except IncorrectLookupParameters:
            raise BadRequest("The filters in this address are damaged.") from None


def _row(act: Activity) -> list[Any]:
    before, after = (json.dumps(each, ensure_ascii=False) if each else "" for each in (act.before, act.after))
    cells = [act.who, act.act, act.summary, str(act.account_id or ""), act.object_type, act.object_id, before, after]
    cells += [act.reason, act.ticket, act.request_id, act.address or ""]
    return [timestamps.iso_millis(act.at), *map(csv_text.text_cell, cells)]
