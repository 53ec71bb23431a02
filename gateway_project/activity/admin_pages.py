"""Base classes of admin pages. Each act on them is recorded in the activity log, with the old and new values.

Django's own history (``LogEntry``) is not written: it has no old values, and can be changed.
"""

import copy
import json
from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import construct_change_message, flatten_fieldsets, unquote
from django.contrib.admin.widgets import AdminSplitDateTime
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Model
from django.forms import PasswordInput
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from gateway_project.activity import list_values, log, outdated_pages
from gateway_project.activity.log import Values
from gateway_project.db import cell, everywhere
from gateway_project.db.owned import OwnedModel
from gateway_project.text import number_fields


class NamedTimesMixin:
    """Names both fields of a time, which Django leaves without a label."""

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)  # type: ignore[misc]
        if field and isinstance(field.widget, AdminSplitDateTime):
            for part, widget in zip(("date", "time"), field.widget.widgets, strict=True):
                widget.attrs["aria-label"] = f"{field.label}, {part}"
        return field


class RecordedAdmin(NamedTimesMixin, admin.ModelAdmin):  # type: ignore[type-arg]
    """A ModelAdmin whose acts are recorded."""

    formfield_overrides = number_fields.OF_COLUMNS
    amounts: tuple[str, ...] = ()  # the fields in nanodollars that the list shows
    own_pages: ClassVar[dict[str, str]] = {}  # route -> the name of its address, and with "_view" that of its method

    def get_urls(self) -> list[URLPattern]:
        model = f"{self.opts.app_label}_{self.opts.model_name}"
        views = {name: self.admin_site.admin_view(getattr(self, f"{name}_view")) for name in self.own_pages.values()}
        own = [path(route, views[name], name=f"{model}_{name}") for route, name in self.own_pages.items()]
        return [*own, *super().get_urls()]

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        found = super().get_changelist_instance(request)
        found.result_list = list(found.result_list)
        list_values.align(found.result_list, self.amounts)
        return found

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the object, and enter the cell in which it is."""
        # PostgreSQL accepts no NUL in texts: the query would raise an error instead of finding nothing.
        if "\x00" in object_id:
            return None
        others = cell.numbers() if issubclass(self.model, OwnedModel) else []
        find = partial(super().get_object, request, object_id, from_field)
        return everywhere.find(find, dict.fromkeys([cell.current(), *others]))

    def changeform_view(self, request: HttpRequest, object_id: str | None = None, *args: Any, **kwargs: Any) -> Any:
        """Save the form, unless its values were changed since it was opened. Then show the new values, and say what changed."""
        with transaction.atomic():
            if request.method == "POST" and object_id is not None and (changes := self._changes_since(request, object_id)):
                messages.error(request, f"Nothing was saved: this was changed since you opened it. {' '.join(changes)}")
                request = _opening(request)
            return super().changeform_view(request, object_id, *args, **kwargs)

    def _changes_since(self, request: HttpRequest, object_id: str) -> list[str]:
        """Return what changed, in sentences. Two who save the same object take turns."""
        written = request.POST.get(outdated_pages.FIELD_NAME)
        cell.take_turn(f"{self.opts.label_lower} {object_id}")
        found = self.get_object(request, unquote(object_id))
        if found is None or written is None or not self.has_change_permission(request, found):
            return []
        opening = _opening(request)
        fields = flatten_fieldsets(self.get_fieldsets(opening, found))
        form = self.get_form(opening, found, change=True, fields=fields)(instance=found)
        formsets, _ = self._create_formsets(opening, found, change=True)  # type: ignore[attr-defined]
        return outdated_pages.describe_changes(written, form, formsets)

    def panels(self, request: HttpRequest, target: Any) -> dict[str, Any]:
        """Return what the page of an object shows beside its fields, as plain values."""
        return {}

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        formsets = [each.formset for each in context["inline_admin_formsets"]]
        if context["original"] is not None:
            context["seen"] = outdated_pages.write(context["adminform"].form, formsets)
            context |= self.panels(request, context["original"])
        return super().render_change_form(request, context, *args, **kwargs)

    def construct_change_message(self, request: HttpRequest, form: Any, formsets: Any, add: bool = False) -> Any:
        """Return the summary and the old and new values of the fields that changed. Django hands them to ``log_change``."""
        message = json.dumps(construct_change_message(form, formsets, add))
        before, after = _changes(form)
        return {"summary": LogEntry(change_message=message).get_change_message(), "before": before, "after": after}

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        log.record(request, log.Act.ADDED, obj, message["summary"], after=message["after"])

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        log.record(request, log.Act.CHANGED, obj, message["summary"], before=message["before"], after=message["after"])

    def log_deletions(self, request: HttpRequest, queryset: Iterable[Any]) -> Any:
        with transaction.atomic():
            for target in queryset:
                log.record(request, log.Act.DELETED, target, f"Deleted {target}.")

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow filters in an address only on what the pages show: others could be guessed letter by letter, as digests can."""
        shown = {"id", "pk", *flatten_fieldsets(self.get_fieldsets(request)), *self.get_list_display(request)}
        shown |= {_filtered(each) for each in self.get_list_filter(request)}
        return lookup.partition("__")[0] in shown and super().lookup_allowed(lookup, value, request)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Lead to the object's acts in the log."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        target = {"object_type": self.opts.label_lower, "object_id": unquote(object_id)}
        return redirect(f"{reverse('admin:activity_activity_changelist')}?{urlencode(target)}")

    def object_for(self, request: HttpRequest, object_id: str, permission: str) -> Any:
        """Return the object. Raises Http404, PermissionDenied."""
        found = self.get_object(request, unquote(object_id))
        if not self.has_view_permission(request, found):
            raise PermissionDenied(f"{self.opts.app_label}.view_{self.opts.model_name}")
        if not request.user.has_perm(permission):
            raise PermissionDenied(permission)
        if found is None:
            raise Http404
        return found

    def show_action(self, request: HttpRequest, template: str, title: str, original: Any, **context: Any) -> HttpResponse:
        """Render a page in the admin's layout."""
        frame = {**self.admin_site.each_context(request), "opts": self.opts, "title": title, "original": original}
        return TemplateResponse(request, template, {**frame, **context})

    def back_to(self, original: Model) -> HttpResponse:
        return redirect(list_values.page_of(original))


class ReadOnlyAdmin(RecordedAdmin):
    """An admin that shows rows to users with the permission to view. Not even superusers can add, change or delete."""

    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    has_change_permission = has_delete_permission = has_add_permission


def _opening(request: HttpRequest) -> HttpRequest:
    opening = copy.copy(request)
    opening.method = "GET"
    return opening


def _filtered(list_filter: Any) -> str:
    """Return the name that an item of ``list_filter`` has in an address, up to its first ``__``."""
    if isinstance(list_filter, (list, tuple)):
        list_filter = list_filter[0]
    return str(getattr(list_filter, "parameter_name", list_filter)).partition("__")[0]


def _changes(form: Any) -> tuple[Values, Values]:
    """Return the old and new values of the fields that changed. A typed password is not among them."""
    fields = {name: form.fields[name] for name in form.changed_data if name in form.fields}
    shown = {name: field for name, field in fields.items() if not isinstance(field.widget, PasswordInput)}
    before = {name: form.get_initial_for_field(field, name) for name, field in shown.items()}
    return before, {name: form.cleaned_data.get(name) for name in shown}
