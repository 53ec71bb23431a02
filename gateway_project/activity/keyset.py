"""Lists of large tables in the admin: the newest first, page by page, and never counted.

The address of a page has the key of the row before it in Django's own parameter: ``?p=older:KEY`` or ``?p=newer:KEY``.
"""

from typing import Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from gateway_project.activity.admin_pages import ReadOnlyAdmin
from gateway_project.db import newest_first


class KeysetChangeList(ChangeList):
    """A list with the addresses ``older`` and ``newer`` of the pages beside its own; None where there is none."""

    older: str | None = None
    newer: str | None = None

    def get_ordering(self, request: HttpRequest, queryset: Any) -> list[Any]:
        return ["-pk"]

    def get_results(self, request: HttpRequest) -> None:
        direction, _, key = request.GET.get(PAGE_VAR, "").partition(":")
        place = {f"{direction}_than": key} if direction in ("newer", "older") else {}
        try:
            page = newest_first.read_page(self.queryset, self.list_per_page, **place)
        except (ValueError, ValidationError) as error:  # not a key of this table
            raise IncorrectLookupParameters(error) from error
        if page.newer is not None:
            self.newer = self.get_query_string({PAGE_VAR: f"newer:{page.newer}"})
        if page.older is not None:
            self.older = self.get_query_string({PAGE_VAR: f"older:{page.older}"})
        self.result_list = page.rows
        self.result_count = self.full_result_count = len(page.rows)  # of this page
        self.show_full_result_count = False
        self.show_admin_actions = self.can_show_all = True
        self.multi_page = False


class NewestFirstAdmin(ReadOnlyAdmin):
    """A read-only list of a large table whose keys sort by time. Its columns cannot be sorted by: no index would help."""

    ordering = ("-pk",)
    sortable_by = ()
    list_per_page = 50
    change_list_template = "admin/newest_first.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return KeysetChangeList
