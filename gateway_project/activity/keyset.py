"""Lists of large tables in the admin: the newest first, page by page, and never counted.

A page is found by the key of the row before it. So the last page costs as much as the first, and new rows move nothing. The
address has the key in Django's own parameter: ``?p=older:KEY`` or ``?p=newer:KEY``.
"""

from typing import Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from gateway_project.activity.admin_pages import ReadOnlyAdmin


class KeysetChangeList(ChangeList):
    """A list with the addresses ``older`` and ``newer`` of the pages beside its own; None where there is none."""

    older: str | None = None
    newer: str | None = None

    def get_ordering(self, request: HttpRequest, queryset: Any) -> list[Any]:
        return ["-pk"]

    def get_results(self, request: HttpRequest) -> None:
        direction, _, key = request.GET.get(PAGE_VAR, "").partition(":")
        try:
            rows, has_more = self._read(direction, key)
        except (ValueError, ValidationError) as error:  # not a key of this table
            raise IncorrectLookupParameters(error) from error
        has_newer, has_older = (has_more, True) if direction == "newer" else (direction == "older", has_more)
        if rows and has_newer:
            self.newer = self.get_query_string({PAGE_VAR: f"newer:{rows[0].pk}"})
        if rows and has_older:
            self.older = self.get_query_string({PAGE_VAR: f"older:{rows[-1].pk}"})
        self.result_list = rows
        self.result_count = self.full_result_count = len(rows)  # of this page
        self.show_full_result_count = False
        self.show_admin_actions = self.can_show_all = True
        self.multi_page = False

    def _read(self, direction: str, key: str) -> tuple[list[Any], bool]:
        """Return the rows of the page, and whether there are more beyond it in its direction."""
        rows = self.queryset
        if direction == "newer":
            found = list(rows.filter(pk__gt=key).order_by("pk")[: self.list_per_page + 1])
            return found[: self.list_per_page][::-1], len(found) > self.list_per_page
        if direction == "older":
            rows = rows.filter(pk__lt=key)
        found = list(rows[: self.list_per_page + 1])
        return found[: self.list_per_page], len(found) > self.list_per_page


class NewestFirstAdmin(ReadOnlyAdmin):
    """A read-only list of a large table whose keys sort by time. Its columns cannot be sorted by: no index would help."""

    ordering = ("-pk",)
    sortable_by = ()
    list_per_page = 50
    change_list_template = "admin/newest_first.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return KeysetChangeList
