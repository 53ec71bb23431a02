"""Admin pages of catalog proposals: old and new values side by side, with buttons to approve and to dismiss."""

from collections.abc import Callable
from functools import partialmethod
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Case, QuerySet, When
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.template.defaultfilters import linebreaksbr
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from billing.models import User
from completions.catalog.sync import diff, proposals
from completions.models import CatalogProposal, UpstreamList
from gateway_project.activity import log
from gateway_project.activity.admin_pages import ReadOnlyAdmin
from gateway_project.activity.list_values import column
from gateway_project.text import web_addresses

Decision = Callable[..., CatalogProposal]


@admin.register(UpstreamList)
class UpstreamListAdmin(ReadOnlyAdmin):
    """Shows when each list was last accepted, and why its last request failed. Leaves out the body, which can be large."""

    list_display = ("provider", "url", "confirmed_at", "failure", "retry_at")
    ordering = ("provider",)
    fields = ("provider", "url", "confirmed_at", "failure", "retry_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[UpstreamList]:
        return super().get_queryset(request).defer("body")


@admin.register(CatalogProposal)
class CatalogProposalAdmin(ReadOnlyAdmin):
    """Proposals are not edited: staff with change permission approve or dismiss them, one or many at a time."""

    change_form_template = "admin/completions/catalogproposal/change_form.html"
    list_display = ("about", "kind", "was", "becomes", "provider", "state", "created_at", "decide")
    list_display_links = ("about",)
    list_filter = ("state", "kind", "provider")
    list_select_related = ("provider", "model", "decided_by")
    search_fields = ("model__id", "upstream_model")
    search_help_text = "A part of a model's id, here or at its provider."
    ordering = (Case(When(state="pending", then=0), default=1), "-id")
    actions = ("approve_selected", "dismiss_selected")
    own_pages = {"<int:proposal_id>/approve/": "approve", "<int:proposal_id>/dismiss/": "dismiss"}
    fields = (
        *("about", "kind", "was", "becomes", "provider", "upstream_model", "state"),
        *("created_at", "decided_at", "decided_by_whom"),
    )

    about = column("Model", lambda proposal: proposal.subject, ordering="upstream_model")

    def has_decide_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("completions.change_catalogproposal")

    @admin.display(description="Was")
    def was(self, proposal: CatalogProposal) -> SafeString | str:
        if proposal.kind == CatalogProposal.Kind.GONE:
            return "listed"
        return _lines(diff.describe_values(proposal.old)) or "none"

    @admin.display(description="Becomes")
    def becomes(self, proposal: CatalogProposal) -> SafeString | str:
        if proposal.kind == CatalogProposal.Kind.GONE:
            return "no longer listed: its route is switched off"
        return _lines(diff.describe_values(proposal.new))

    @admin.display(description="Decided by")
    def decided_by_whom(self, proposal: CatalogProposal) -> str:
        if proposal.decided_at is None:
            return "nobody yet"
        by_itself = "the rule" if proposal.state == CatalogProposal.State.APPLIED else "a later list"
        return proposal.decided_by.email if proposal.decided_by else by_itself

    @admin.display(description="Decide")
    def decide(self, proposal: CatalogProposal) -> SafeString | str:
        """Buttons in the form of the list, which has the CSRF field."""
        if proposal.state != CatalogProposal.State.PENDING:
            return ""
        return format_html_join(
            " ",
            '<button type="submit" class="button" formaction="{}">{}</button>',
            (
                (reverse(f"admin:completions_catalogproposal_{verb}", args=[proposal.pk]), verb.capitalize())
                for verb in ("approve", "dismiss")
            ),
        )

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        return self.list_display if self.has_decide_permission(request) else self.list_display[:-1]

    def panels(self, request: HttpRequest, proposal: Any) -> dict[str, Any]:
        return {"may_decide": proposal.state == CatalogProposal.State.PENDING and self.has_decide_permission(request)}

    def _decide_one(self, request: HttpRequest, proposal_id: int, decision: Decision) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_decide_permission(request):
            raise PermissionDenied
        try:
            self._decide(request, proposal_id, decision)
        except CatalogProposal.DoesNotExist:
            raise Http404 from None
        page = reverse("admin:completions_catalogproposal_changelist")
        referer = web_addresses.parse(request.headers.get("Referer", ""))  # with the filters of the list
        return redirect(f"{page}?{referer.query}" if referer.path == page and referer.query else page)

    approve_view = partialmethod(_decide_one, decision=proposals.approve)
    dismiss_view = partialmethod(_decide_one, decision=proposals.dismiss)

    @admin.action(description="Approve the selected proposals", permissions=["decide"])
    def approve_selected(self, request: HttpRequest, queryset: QuerySet[CatalogProposal]) -> None:
        self._decide_all(request, queryset, proposals.approve)

    @admin.action(description="Dismiss the selected proposals", permissions=["decide"])
    def dismiss_selected(self, request: HttpRequest, queryset: QuerySet[CatalogProposal]) -> None:
        self._decide_all(request, queryset, proposals.dismiss)

    def _decide_all(self, request: HttpRequest, queryset: QuerySet[CatalogProposal], decision: Decision) -> None:
        """Decide each proposal on its own: one that fails does not stop the others."""
        for proposal_id in queryset.order_by("pk").values_list("pk", flat=True):
            self._decide(request, proposal_id, decision)

    def _decide(self, request: HttpRequest, proposal_id: int, decision: Decision) -> None:
        by = request.user
        assert isinstance(by, User)  # admin_view admits staff only
        try:
            with transaction.atomic():  # of the decision and its record
                self._record(request, decision(proposal_id, by=by))
        except proposals.DecisionRefused as refusal:
            messages.error(request, f"Proposal {proposal_id} {refusal}.")

    def _record(self, request: HttpRequest, proposal: CatalogProposal) -> None:
        """Write the history of the proposal and of the model, and show a message."""
        change = diff.describe_change(proposal.kind, proposal.old, proposal.new)
        verb = "Approved" if proposal.state == CatalogProposal.State.APPLIED else "Dismissed"
        text = f"{verb} what {proposal.provider_id} lists of {proposal.subject}: {change}."
        log.record(request, log.Act.DECIDED, proposal, text)
        if proposal.model and proposal.state == CatalogProposal.State.APPLIED:
            log.record(request, log.Act.DECIDED, proposal.model, text)
        if proposal.kind == CatalogProposal.Kind.NEW_MODEL and proposal.model_id:
            page = reverse("admin:completions_languagemodel_change", args=[quote(proposal.model_id)])
            text = format_html('{} It is switched off: <a href="{}">look it over</a>, and switch it on.', text, page)
        messages.success(request, text)


def _lines(lines: list[str]) -> SafeString:
    """Join the values, each on one line, so that old and new values line up."""
    return linebreaksbr("\n".join(lines).replace(" ", "\N{NO-BREAK SPACE}"))
