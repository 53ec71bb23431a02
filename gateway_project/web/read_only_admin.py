"""LEAF. Admin pages of rows that the gateway alone writes."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest


class ReadOnlyAdmin(admin.ModelAdmin):
    """To look at, with the permission to view. Nobody adds, changes or deletes here, superusers included."""

    show_full_result_count = False

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        # PostgreSQL's texts hold no NUL, and what asks for one gets an error where "there is none" is meant.
        return None if "\x00" in object_id else super().get_object(request, object_id, from_field)

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
