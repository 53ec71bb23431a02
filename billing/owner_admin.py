"""The support page of owners that wait for a second person."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from billing import owners
from billing.approval_admin import WaitingActAdmin
from billing.models import OwnerRequest, User
from gateway_project.activity.models import Activity


@admin.register(OwnerRequest)
class OwnerRequestAdmin(WaitingActAdmin):
    approve_permission = "billing.add_membership"
    approved_as = "made"
    list_display = ("requested_at", "account", "user", "reason", "requested_by", "state")
    list_select_related = ("account", "user", "requested_by")
    search_fields = ("requested_by__email__exact", "account__name", "user__email__exact")
    search_help_text = "Email address of the requester or new owner, or the account name."
    fields = (
        *("account", "user", "reason", "ticket", "requested_by", "requested_at"),
        *("state", "decided_by", "decided_at", "decision_reason"),
    )

    def refusal(self, asked: OwnerRequest, by: User) -> str:
        return owners.refusal(asked, by)

    def approve(self, request: HttpRequest, asked: OwnerRequest, by: User) -> tuple[Activity.Act, dict[str, Any], str]:
        membership = owners.approve(request, asked.pk, by=by)
        return Activity.Act.MEMBER_JOINED, {"membership": membership.pk}, f"{asked.user} is an owner now."
