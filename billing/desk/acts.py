"""Acts of staff on an account, each a form that says what it does and does it.

A form is validated while the staff and the account are locked, so what it checks stays true. Each act is recorded in the
activity log, and returns what was done in sentences for the member of staff.
"""

from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib.auth.models import Group
from django.http import HttpRequest
from django.urls import reverse

from billing import staff_permissions
from billing.accounts import lifecycle
from billing.members import notices
from billing.models import Account, User
from billing.sign_in import mails
from gateway_project.activity import log
from gateway_project.db import pool
from gateway_project.desk.forms import ReasonForm
from gateway_project.web import hosts


class StaffAct(ReasonForm):
    """An act on a locked account. One that moves money is not for members of the account, like credits."""

    name: ClassVar[str]  # in addresses
    title: ClassVar[str]
    permission: ClassVar[str]
    explanation: ClassVar[str]
    submit: ClassVar[str]
    moves_money: ClassVar[bool] = True
    template: ClassVar[str] = "admin/billing/account/act.html"
    subject: Account

    def __init__(self, account: Account, staff: User, *args: Any, **kwargs: Any) -> None:
        self.staff = staff
        super().__init__(account, *args, **kwargs)

    @classmethod
    def is_possible(cls, account: Account) -> bool:
        return True

    @classmethod
    def may(cls, request: HttpRequest, account: Account) -> bool:
        """Say whether the user may do it. That it is possible is for the form to decide."""
        may_act = request.user.has_perm(cls.permission)
        return may_act and (not cls.moves_money or staff_permissions.may_credit(staff_permissions.staff_of(request), account))

    def context(self) -> dict[str, Any]:
        """Return what the form's page shows beside it, as plain values."""
        return {}

    def perform(self, request: HttpRequest) -> str:
        """Act by the valid form. Raises ReferenceReused."""
        raise NotImplementedError

    def record(self, request: HttpRequest, act: log.Act, summary: str, **values: Any) -> None:
        values |= self.notes
        log.record(request, act, self.subject, summary, **values)

    def require_no_refund_under_way(self) -> None:
        """Raises ValidationError while the processor pays back what is left of an account that its owner closed."""
        if lifecycle.is_being_refunded(self.subject):
            raise forms.ValidationError(
                "The owner closed the account. What is left is being refunded: try again in a few minutes."
            )

    def close_account(self) -> None:
        """Close it. No owner can undo their closing from now on, but what that promised stays: the refund, and the erasure."""
        lifecycle.set_active(self.subject, is_active=False)
        then = "You can ask us to refund what is left and to erase personal data, in the Settings of your dashboard."
        if closing := lifecycle.find_open_closing(self.subject):
            refund = " What is left of payments is refunded." if closing.is_refunded else ""
            then = f"As an owner asked, personal data is erased on {closing.erase_at:%-d %b %Y}.{refund}"
            if closing.kept_closed_at is None:
                closing.kept_closed_at = pool.database_time()
                closing.save(update_fields=["kept_closed_at"])
        then = f"Its keys have stopped, and only our support can reopen it. {then}"
        notices.tell_owners_of_closing(self.subject, "account_by_staff", act="closed", then=then)


class Close(StaffAct):
    """Closes an account, or one that its owner closed: then only staff can reopen it. Its keys are refused from then on."""

    name = "close"
    title = submit = "Close account"
    permission = "billing.close_account"
    explanation = "New requests with the account's keys are refused; running requests finish as usual. The balance stays."
    moves_money = False

    @classmethod
    def is_possible(cls, account: Account) -> bool:
        closing = lifecycle.find_open_closing(account)
        return account.is_active or (closing is not None and closing.kept_closed_at is None)

    def clean(self) -> dict[str, Any]:
        if not self.is_possible(self.subject):
            raise forms.ValidationError("The account is already closed.")
        return super().clean()

    def perform(self, request: HttpRequest) -> str:
        self.close_account()
        self.record(request, log.Act.CLOSED, "Closed the account.")
        return "The account is closed. Requests with its keys are now refused."


class Reopen(StaffAct):
    """Opens a closed account. Nothing that its owner's closing promised is refunded or erased after that."""

    name = "reopen"
    title = submit = "Reopen account"
    permission = "billing.close_account"
    explanation = "The account's keys work again, except those that are revoked or expired."
    moves_money = False

    @classmethod
    def is_possible(cls, account: Account) -> bool:
        return not account.is_active

    def clean(self) -> dict[str, Any]:
        if not self.is_possible(self.subject):
            raise forms.ValidationError("The account is already open.")
        self.require_no_refund_under_way()
        return super().clean()

    def perform(self, request: HttpRequest) -> str:
        lifecycle.set_active(self.subject, is_active=True)
        if closing := lifecycle.find_open_closing(self.subject):
            closing.undone_at = pool.database_time()
            closing.save(update_fields=["undone_at"])
        then = "Its keys work again, except those that are revoked or expired. No personal data is erased."
        notices.tell_owners_of_closing(self.subject, "account_by_staff", act="reopened", then=then)
        self.record(request, log.Act.REOPENED, "Reopened the account.")
        return "The account is open. Its keys work again, except those that are revoked or expired."


class HandOver(StaffAct):
    """Hands a ticket over: colleagues of the group who may view accounts get an email once this is committed."""

    name = "hand-over"
    title = submit = "Hand over"
    permission = "billing.view_account"
    explanation = "Hands a ticket about this account over to colleagues, with a link to this page."
    moves_money = False

    group = forms.ModelChoiceField(Group.objects.none(), label="To", empty_label=None, help_text="Its members get an email.")
    field_order = ("group", "ticket", "reason")

    def __init__(self, account: Account, *args: Any, **kwargs: Any) -> None:
        super().__init__(account, *args, **kwargs)
        field = self.fields["group"]
        assert isinstance(field, forms.ModelChoiceField)
        colleagues = staff_permissions.staff_with("billing.view_account")
        field.queryset = Group.objects.filter(user__in=colleagues).distinct().order_by("name")
        self.fields["ticket"].required = True
        self.fields["reason"].help_text = "What is left to do. It goes into the email and the activity log."

    def perform(self, request: HttpRequest) -> str:
        group, account = self.cleaned_data["group"], self.subject
        colleagues = staff_permissions.staff_with("billing.view_account").filter(groups=group).exclude(pk=self.staff.pk)
        to = sorted(colleagues.values_list("email", flat=True))
        summary = f"Handed ticket {self.notes['ticket']} over to {group}."
        self.record(request, log.Act.HANDED_OVER, summary, after={"group": group.name})
        if not settings.SENDS_MAIL or not to:
            return f"Handed over to {group}. No email was sent: tell them."
        link = f"{hosts.mailed_base_url(request)}{reverse('admin:billing_account_change', args=[account.pk])}"
        facts = {"account": str(account), "by": self.staff.email, "link": link, **self.notes}
        for email in to:
            mails.send_once_committed(email, "handed_over", **facts)
        return f"Handed over to {group}: {', '.join(to)}."
