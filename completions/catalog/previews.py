"""Shows the changes of a form of the catalog's admin before it is saved, and which of them callers would notice.

The form is saved in a transaction, which is rolled back. So the preview shows what the form really does.
"""

import copy
from collections.abc import Mapping
from typing import Any

from django.contrib.admin.utils import unquote
from django.contrib.messages.storage import default_storage
from django.db import transaction
from django.forms import PasswordInput
from django.http import HttpRequest, HttpResponse

from completions.models import LanguageModel, Provider, Route
from completions.statistics import measurements
from gateway_project.activity.admin_pages import RecordedAdmin
from gateway_project.text import dollars

CONFIRMED = "_confirmed"
_UNSEEN = {"csrfmiddlewaretoken", CONFIRMED}
Facts = dict[str, str]  # what is true of an object and around it, in words, by label


class _Undo(Exception):
    """Rolls a trial back."""


class PreviewedAdmin(RecordedAdmin):
    """An admin whose changes are shown before they are saved: each old and new value, and which models are served then.

    Other rows refer to its rows, so that they cannot be deleted.
    """

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        if request.method != "POST" or object_id is None or CONFIRMED in request.POST:
            return super().changeform_view(request, object_id, form_url, extra_context)
        target = self.get_object(request, unquote(object_id))
        if target is None:
            return super().changeform_view(request, object_id, form_url, extra_context)
        before = self._facts(target.pk)
        try:
            with transaction.atomic():
                trial = copy.copy(request)
                trial._messages = default_storage(trial)  # type: ignore[attr-defined]  # they would say that it is saved
                reply = super().changeform_view(trial, object_id, form_url, extra_context)
                after = self._facts(target.pk)
                raise _Undo
        except _Undo:
            if reply.status_code != 302:
                return reply
        changes = [(name, before.get(name, "none"), after.get(name, "none")) for name in {**before, **after}]
        changes = [(name, old, new) for name, old, new in changes if old != new]
        if not changes:
            return super().changeform_view(request, object_id, form_url, extra_context)
        return self._show(request, target, changes)

    def _show(self, request: HttpRequest, target: Any, changes: list[tuple[str, str, str]]) -> HttpResponse:
        fields: Mapping[str, Any] = self.get_form(request, target, change=True).base_fields
        # Passwords are not sent back: those that were typed are typed again.
        secrets = [
            (name, str(field.label or name))
            for name, field in fields.items()
            if isinstance(field.widget, PasswordInput) and request.POST.get(name)
        ]
        model_id = _model_id(target)
        by = ("model_id", model_id) if model_id else ("provider_id", target.pk)
        number, nanos = measurements.read_open_holds(*by)
        running = "1 request runs" if number == 1 else f"{number:,} requests run"
        sent = [(name, value) for name in request.POST for value in request.POST.getlist(name)]
        context = {
            "changes": changes,
            "running": f"{running} here now, with holds of {dollars.format_usd(nanos)}. They end as they were admitted.",
            "secrets": secrets,
            "sent": [(name, value) for name, value in sent if name not in {*_UNSEEN, *(each for each, _ in secrets)}],
        }
        return self.show_action(request, "admin/completions/preview.html", "Review the change", target, **context)

    def _facts(self, pk: Any) -> Facts:
        target = self.model._default_manager.get(pk=pk)
        facts = _describe_fields(target)
        if isinstance(target, LanguageModel):
            for route in target.routes.order_by("priority", "id"):
                state = "enabled" if route.is_enabled else "disabled"
                shares = f"priority {route.priority}, weight {route.weight}, {route.get_api_display()}, {state}"
                facts[f"Route to {route.provider_id}, {route.upstream_model}"] = shares
        # Which models are served, which only what is done to all of their routes and providers says.
        model_id = _model_id(target)
        concerned: dict[str, Any] = {"pk": model_id} if model_id else {"routes__provider": target}
        for model in LanguageModel.objects.filter(**concerned).distinct().with_price_and_routes():
            facts[f"{model.pk} is served"] = describe_service(model)
        return facts


def describe_service(model: LanguageModel) -> str:
    """Return whether the model is served, and if not, why."""
    obstacle = next(model.obstacles(), None)
    return f"no: it {obstacle}" if obstacle else "yes"


def _model_id(target: LanguageModel | Provider | Route) -> str | None:
    """Return the model that a change concerns; None: all of a provider."""
    if isinstance(target, Provider):
        return None
    return target.model_id if isinstance(target, Route) else target.pk


def _describe_fields(target: LanguageModel | Provider | Route) -> Facts:
    """Describe the fields that people may edit."""
    facts = {}
    for field in target._meta.concrete_fields:
        if field.editable:
            display = getattr(target, f"get_{field.name}_display", None)
            facts[str(field.verbose_name).capitalize()] = _word(display() if display else getattr(target, field.name))
    return facts


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, "") else str(value)
