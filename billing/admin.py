"""The support pages of accounts and the ledger, and through ``people_admin`` of users. Entries are read-only."""

from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.text import Truncator

from billing import money, staff_permissions
from billing.accounts import lifecycle
from billing.desk import search
from billing.desk.pages import AccountActPages, possible_acts_on_entry
from billing.ledger import statement
from billing.models import Account, Hold, LedgerEntry, ManualEntry, SignInLimit
from billing.payments import admin as payments_admin  # noqa: F401  registers its pages
from billing.sign_in import limits
from billing.staff import approval_admin, unblocking  # noqa: F401  registers what waits for approval
from billing.staff.forms import AccountForm
from billing.staff.people_admin import ClosesAbandonedAccounts, MembershipInline, ShowsCreation
from billing.staff_permissions import staff_of
from gateway_project.activity import admin_pages, keyset, list_values, log
from gateway_project.activity.list_values import column
from gateway_project.desk import panels, short_ids
from gateway_project.desk.forms import ReasonForm, act_once
from gateway_project.templatetags.amounts import balance_usd, usd
from gateway_project.text import dollars


class ActiveMemberFilter(admin.SimpleListFilter):
    title = "active member"
    parameter_name = "active_member"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "Yes"), ("no", "No")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Account]) -> QuerySet[Account]:
        wanted = {"yes": lifecycle.HAS_ACTIVE_MEMBER, "no": ~lifecycle.HAS_ACTIVE_MEMBER}.get(self.value() or "")
        return queryset if wanted is None else queryset.filter(wanted)


@admin.register(Account)
class AccountAdmin(AccountActPages, ShowsCreation, ClosesAbandonedAccounts, admin_pages.RecordedAdmin):
    """Find an account by a member's email address, see its balance and entries, act on it."""

    change_form_template = "admin/billing/account/change_form.html"
    list_display = ("name", "balance", "held", "is_active", "created")
    amounts = ("balance_nanos", "held_nanos")
    list_filter = ("is_active", ActiveMemberFilter)
    form = AccountForm
    search_fields = ("name", "members__email")
    search_help_text = "A member's email address, words of the account's name, or its ID."
    readonly_fields = ("id", "is_active", "created")
    fields = (
        *("name", "requests_per_minute", "tokens_per_minute", "requests_in_flight_max", "keeps_responses"),
        *("data_policy", "data_regions", *readonly_fields),
    )
    ordering = ("name", "id")
    inlines = (MembershipInline,)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # the ledger is kept; deactivate the account instead

    def get_inlines(self, request: HttpRequest, obj: Any) -> Any:
        """Show the form of memberships to staff who may send it. Everybody sees the members above it."""
        may_save = self.has_change_permission(request, obj) if obj else self.has_add_permission(request)
        verbs = ("add", "change", "delete")
        return self.inlines if may_save and any(request.user.has_perm(f"billing.{verb}_membership") for verb in verbs) else ()

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Account], search_term: str
    ) -> tuple[QuerySet[Account], bool]:
        return (queryset.filter(pk__in=search.account_ids(search_term)) if search_term else queryset), False

    def account_ids(self, objects: QuerySet[Account]) -> QuerySet[Any]:
        return objects.values_list("pk", flat=True)

    def save_model(self, request: HttpRequest, obj: Account, form: Any, change: bool) -> None:
        if not change:
            lifecycle.enter_cell_of_new_accounts()
        # Save only the changed fields: the balance of this copy may be outdated.
        obj.save(**({"update_fields": form.changed_data} if change else {}))

    balance = column(
        "balance", lambda each: balance_usd(each.balance_nanos, list_values.decimals_of(each)), ordering="balance_nanos"
    )
    held = column(
        "held by running requests", lambda each: usd(each.held_nanos, list_values.decimals_of(each)), ordering="held_nanos"
    )

    # --- Around the form: acts, and the sections of all apps --------------------------------------------------------

    def change_view(self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        account = self.get_object(request, object_id)
        if account is not None and request.method == "GET" and self.has_view_permission(request, account):
            extra_context = {
                **(extra_context or {}),
                "acts": self.possible_acts(request, account),
                "has_active_member": Account.objects.filter(lifecycle.HAS_ACTIVE_MEMBER, pk=account.pk).exists(),
                "funds": statement.show_funds(account),
                "sections": panels.read_sections(request, account),
            }
        return super().change_view(request, object_id, form_url, extra_context)


@admin.register(LedgerEntry)
class LedgerEntryAdmin(keyset.NewestFirstAdmin):
    list_display = ("at", "of_account", "kind", "amount", "balance_after", "booked_for", "short_id")
    amounts = ("amount_nanos", "balance_after_nanos")
    list_filter = ("type",)
    list_select_related = ("account",)
    search_fields = ("reference__exact",)
    search_help_text = "The exact reference, such as a completion ID. For one account's entries, start from the account's page."
    fields = (
        *("id", "account", "seq", "kind", "amount", "amount_cents", "balance_after", "balance_after_cents", "reference"),
        *("completion", "key", "metadata", "issued_by", "operator", "at"),
    )
    change_form_template = "admin/billing/credit_acts.html"

    def change_view(self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        entry = self.get_object(request, object_id)
        acts = possible_acts_on_entry(request, entry) if entry else []
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), "acts": acts})

    short_id = column("ID", lambda entry: short_ids.shorten(str(entry.pk)))
    at = column("when", lambda entry: list_values.moment(entry.created_at))
    of_account = column("account", lambda entry: list_values.link(entry.account))
    kind = column("type", lambda entry: list_values.word(entry.title, entry.type))
    key = column("key", lambda entry: list_values.search_link(entry.spender) if entry.spender else "")
    amount = column("amount", lambda entry: usd(_show(entry)[0]))
    balance_after = column("balance after", lambda entry: usd(_show(entry)[1]))
    amount_cents = column("amount in cents, as the API reports it", lambda entry: entry.amount_cents)
    balance_after_cents = column("balance after in cents", lambda entry: money.floor_cents(entry.balance_after_nanos))

    @admin.display(description="booked for")
    def booked_for(self, entry: LedgerEntry) -> str:
        return self.completion(entry) or Truncator(statement.describe(entry) or entry.reference).chars(30)

    @admin.display
    def completion(self, entry: LedgerEntry) -> str:
        is_usage = entry.type == LedgerEntry.Type.USAGE_DEBIT
        return list_values.search_link(entry.reference, short_ids.shorten(entry.reference)) if is_usage else ""

    @admin.display(description="booked by the command of", empty_value="-")
    def operator(self, entry: LedgerEntry) -> str | None:
        return ManualEntry.objects.filter(pk=entry.pk).values_list("operator", flat=True).first()


def _show(entry: LedgerEntry) -> tuple[dollars.Amount, dollars.Amount]:
    amounts = (entry.amount_nanos, entry.balance_after_nanos)
    return dollars.show_entry(*amounts, list_values.decimals_of(entry) or dollars.decimals(amounts))


@admin.register(Hold)
class HoldAdmin(keyset.NewestFirstAdmin):
    list_display = ("placed_at", "of_account", "in_words", "amount", "settled", "expires", "short_reference")
    amounts = ("amount_nanos", "settled_nanos")
    list_filter = ("state",)
    list_select_related = ("account",)
    search_fields = ("reference__exact",)
    fields = ("reference", "completion", "account", "in_words", "amount", "settled", "placed_at", "expires", "resolved")

    short_reference = column("completion", lambda hold: short_ids.shorten(hold.reference), ordering="reference")
    of_account = column("account", lambda hold: list_values.link(hold.account))
    completion = column("completion", lambda hold: list_values.search_link(hold.reference))
    placed_at = column("placed", lambda hold: list_values.moment(hold.created_at))
    expires = column("expires", lambda hold: list_values.moment(hold.expires_at))
    in_words = column("state", lambda hold: list_values.word(hold.state_in_words, hold.state))
    resolved = column("resolved", lambda hold: hold.resolved_at and list_values.moment(hold.resolved_at), empty_value="-")
    amount = column("held", lambda hold: usd(hold.amount_nanos, list_values.decimals_of(hold)))

    @admin.display(description="cost", empty_value="-")
    def settled(self, hold: Hold) -> str | None:
        return None if hold.settled_nanos is None else usd(hold.settled_nanos, list_values.decimals_of(hold))


@admin.register(SignInLimit)
class SignInLimitAdmin(admin_pages.ReadOnlyAdmin):
    """Limits are digests: they are found by the address that they limit, whose page says what is used up, and unblocks it."""

    own_pages = {"unblock/": "unblock"}
    list_display = ("full_at", "digest")
    search_fields = ("digest__exact",)
    search_help_text = "An email address, the address of a client, or the digest."
    ordering = ("-full_at", "digest")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[SignInLimit], search_term: str
    ) -> tuple[QuerySet[SignInLimit], bool]:
        if address := unblocking.read_address(search_term):
            return queryset.filter(pk__in=[each.row.pk for each in unblocking.find(address)]), False
        return super().get_search_results(request, queryset, search_term)

    def unblock_view(self, request: HttpRequest) -> HttpResponse:
        """Show what is used up of the limits of ``?address=``; a POST makes it available again, with a reason."""
        if not (self.has_view_permission(request) and request.user.has_perm("billing.unblock_sign_in")):
            raise PermissionDenied("billing.unblock_sign_in")
        address = unblocking.read_address(request.GET.get("address", ""))
        if not address:
            raise Http404
        user = unblocking.find_user(address)
        if user and user.is_staff and not staff_permissions.may_set_credentials(staff_of(request), user):
            raise PermissionDenied(f"{user} is a colleague: only a superuser may do this.")
        form = ReasonForm(address, request.POST if request.method == "POST" else None)
        with transaction.atomic():
            used = unblocking.find(address)
            unblock = partial(self._unblock, request, form, address, used)
            if request.method == "POST" and used and act_once(request, form, unblock):
                return redirect(f"{request.path}?{urlencode({'address': address})}")
        context = {"address": address, "used": used, "form": form if used else None}
        return self.show_action(request, "admin/billing/signinlimit/unblock.html", "Unblock a sign-in", None, **context)

    def _unblock(self, request: HttpRequest, form: ReasonForm, address: str, used: list[unblocking.Used]) -> str:
        limits.reset([each.row for each in used])
        summary = f"Unblocked {address}: {'; '.join(each.words for each in used)}."
        target = unblocking.find_user(address) or used[0].row
        log.record(request, log.Act.UNBLOCKED, target, summary, **form.notes)
        return f"{address} is unblocked: within a minute everywhere."
