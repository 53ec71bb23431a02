"""The support pages of users, accounts and the ledger. Credits are issued through ``ledger``; entries are read-only."""

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from billing import ledger_pages, money, statement
from billing.forms import NewUserForm, SupportCreditForm, UserForm
from billing.models import Account, Hold, LedgerEntry, Membership, User
from gateway_project import dollars
from gateway_project.web.read_only_admin import ReadOnlyAdmin

LATEST_ENTRIES = 20


class ActionsMixin:
    """Admin pages that do one action with one object. They need the view permission and the action's own permission."""

    def object_for(self, request: HttpRequest, object_id: str, permission: str) -> Any:
        """Return the object. Raises Http404, PermissionDenied."""
        found = self.get_object(request, object_id)  # type: ignore[attr-defined]
        if not (self.has_view_permission(request, found) and request.user.has_perm(permission)):  # type: ignore[attr-defined]
            raise PermissionDenied
        if found is None:
            raise Http404
        return found

    def show_action(self, request: HttpRequest, template: str, title: str, original: Any, **context: Any) -> HttpResponse:
        """Render a page in the admin's layout."""
        frame = {**self.admin_site.each_context(request), "opts": self.opts, "title": title, "original": original}  # type: ignore[attr-defined]
        return TemplateResponse(request, template, {**frame, **context})

    def back_to(self, original: Any) -> HttpResponse:
        return redirect(reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[original.pk]))  # type: ignore[attr-defined]


class MembershipInline(admin.TabularInline):
    model = Membership
    extra = 0
    autocomplete_fields = ("user", "account")
    readonly_fields = ("created_at",)


PERMISSION_FIELDS = ("is_staff", "is_superuser", "groups", "user_permissions")


@admin.register(User)
class PersonAdmin(UserAdmin):
    """Django's user admin, for users without a username."""

    form = UserForm
    add_form = NewUserForm
    fieldsets = (
        (None, {"fields": ("email", "password")}),
        ("Name", {"fields": ("first_name", "last_name")}),
        ("Permissions", {"fields": ("is_active", "is_staff", "is_superuser", "groups", "user_permissions")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = (
        (None, {"classes": ("wide",), "fields": ("email", "usable_password", "password1", "password2", "is_staff", "groups")}),
    )
    readonly_fields = ("last_login", "date_joined")
    list_display = ("email", "first_name", "last_name", "is_staff", "is_active")
    search_fields = ("email", "first_name", "last_name")
    ordering = ("email",)
    inlines = (MembershipInline,)

    def get_inlines(self, request: HttpRequest, obj: Any) -> Any:
        return self.inlines if obj else ()

    # Staff who may change users must not give themselves or others more permissions than they have.

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if request.user.is_superuser:
            return self.readonly_fields
        return (*self.readonly_fields, *PERMISSION_FIELDS)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj or request.user.is_superuser:
            return super().get_fieldsets(request, obj)
        return ((None, {"classes": ("wide",), "fields": ("email", "usable_password", "password1", "password2")}),)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        if obj and obj.is_superuser and not request.user.is_superuser:
            return False
        return super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        if obj and obj.is_superuser and not request.user.is_superuser:
            return False
        return super().has_delete_permission(request, obj)


@admin.register(Account)
class AccountAdmin(ActionsMixin, admin.ModelAdmin):
    """Find an account by a member's e-mail address, see its balance and entries, issue credit."""

    change_form_template = "admin/billing/account/change_form.html"
    list_display = ("name", "balance", "held", "is_active", "created_at")
    list_filter = ("is_active",)
    search_fields = ("name", "members__email")
    search_help_text = "A member's e-mail address, the account's name, or its id."
    fields = (
        "name",
        "is_active",
        "requests_per_minute",
        "tokens_per_minute",
        "id",
        "balance",
        "held",
        "available",
        "created_at",
    )
    readonly_fields = ("id", "balance", "held", "available", "created_at")
    ordering = ("name", "id")
    inlines = (MembershipInline,)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # the ledger is kept; deactivate the account instead

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Account], search_term: str
    ) -> tuple[QuerySet[Account], bool]:
        try:
            return queryset.filter(pk=UUID(search_term.strip())), False
        except ValueError:
            return super().get_search_results(request, queryset, search_term)

    def save_model(self, request: HttpRequest, obj: Account, form: Any, change: bool) -> None:
        # Save only the changed fields: the balance of this copy may be outdated.
        obj.save(**({"update_fields": form.changed_data} if change else {}))

    @admin.display(ordering="balance_nanos")
    def balance(self, account: Account) -> str:
        return dollars.format_usd(account.balance_nanos)

    @admin.display(ordering="held_nanos", description="held by running requests")
    def held(self, account: Account) -> str:
        return dollars.format_usd(account.held_nanos)

    @admin.display(description="available")
    def available(self, account: Account) -> str:
        return dollars.format_usd(account.available_nanos)

    # --- Beside the form: the latest entries, and what subclasses add ---------------------------------------------

    def change_view(self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        account = self.get_object(request, object_id)
        if account is not None and self.has_view_permission(request, account):
            extra_context = {**(extra_context or {}), **self.panels(request, account)}
        return super().change_view(request, object_id, form_url, extra_context)

    def panels(self, request: HttpRequest, account: Account) -> dict[str, Any]:
        """Return the data beside the form that the user may see, as plain values."""
        panels: dict[str, Any] = {"may_credit": request.user.has_perm("billing.issue_support_credit")}
        if request.user.has_perm("billing.view_ledgerentry"):
            panels |= {"rows": _latest_rows(account), "rows_count": account.last_seq}
        if not request.user.has_perm("billing.view_membership"):
            panels["member_emails"] = list(account.members.order_by("email").values_list("email", flat=True))
        return panels

    # --- Issue credit ---------------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        credit = self.admin_site.admin_view(self.credit_view)
        return [path("<path:object_id>/credit/", credit, name="billing_account_credit"), *super().get_urls()]

    def credit_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Issue a SUPPORT_CREDIT. A form that is sent twice credits once."""
        account = self.object_for(request, object_id, "billing.issue_support_credit")
        form = SupportCreditForm(account, request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid() and self._credit(request, account, form):
            return self.back_to(account)
        context = {"form": form, "balance": dollars.format_usd(account.balance_nanos)}
        return self.show_action(request, "admin/billing/account/credit.html", "Issue credit", account, **context)

    def _credit(self, request: HttpRequest, account: Account, form: SupportCreditForm) -> bool:
        with transaction.atomic():
            booked = form.grant(request.user)  # type: ignore[arg-type]  # admin_view admits only users
            if booked is None:
                return False
            entry, amount = booked.entry, dollars.format_usd(booked.entry.amount_nanos)
            if not booked.is_new:
                messages.warning(request, f"This credit of {amount} was already booked. Nothing was added.")
                return True
            self.log_change(request, account, f"Issued a SUPPORT_CREDIT of {amount}, entry {entry.pk}.")
        messages.success(request, f"{amount} credited. The balance is {dollars.format_usd(entry.balance_after_nanos)}.")
        return True


def _latest_rows(account: Account) -> list[statement.StatementLine]:
    entries = ledger_pages.read_page(account, limit=LATEST_ENTRIES, offset=0)
    emails = dict(User.objects.filter(pk__in={entry.issued_by_id for entry in entries}).values_list("pk", "email"))
    return [statement.format_entry(entry, issued_by=emails.get(entry.issued_by_id or 0, "")) for entry in entries]


@admin.register(Membership)
class MembershipAdmin(admin.ModelAdmin):
    list_display = ("user", "account", "created_at")
    list_select_related = ("user", "account")
    search_fields = ("user__email", "account__name")
    autocomplete_fields = ("user", "account")
    readonly_fields = ("created_at",)


@admin.register(LedgerEntry)
class LedgerEntryAdmin(ReadOnlyAdmin):
    list_display = ("created_at", "account", "seq", "type", "amount", "balance_after", "reference")
    list_filter = ("type",)
    list_select_related = ("account",)
    search_fields = ("reference__exact",)
    search_help_text = "The exact reference, such as a completion's id. One account's entries: from the account's page."
    fields = (
        "id",
        "account",
        "seq",
        "type",
        "amount",
        "amount_cents",
        "balance_after",
        "balance_after_cents",
        "reference",
        "metadata",
        "issued_by",
        "created_at",
    )
    ordering = ("-id",)  # ids sort by time and, unlike created_at, are indexed

    @admin.display(description="amount")
    def amount(self, entry: LedgerEntry) -> str:
        return dollars.format_usd(entry.amount_nanos)

    @admin.display(description="balance after")
    def balance_after(self, entry: LedgerEntry) -> str:
        return dollars.format_usd(entry.balance_after_nanos)

    @admin.display(description="amount in cents, as the API reports it")
    def amount_cents(self, entry: LedgerEntry) -> int:
        return statement.format_entry(entry).amount_cents

    @admin.display(description="balance after in cents")
    def balance_after_cents(self, entry: LedgerEntry) -> int:
        return money.floor_cents(entry.balance_after_nanos)


@admin.register(Hold)
class HoldAdmin(ReadOnlyAdmin):
    list_display = ("reference", "account", "state", "amount", "settled", "created_at", "expires_at")
    list_filter = ("state",)
    list_select_related = ("account",)
    search_fields = ("reference__exact",)
    fields = ("reference", "account", "state", "amount", "settled", "created_at", "expires_at", "resolved_at")
    ordering = ("-reference",)

    @admin.display(description="held")
    def amount(self, hold: Hold) -> str:
        return dollars.format_usd(hold.amount_nanos)

    @admin.display(description="cost", empty_value="-")
    def settled(self, hold: Hold) -> str | None:
        return None if hold.settled_nanos is None else dollars.format_usd(hold.settled_nanos)
