"""The admin pages of bills: imports, how they compare, and what names on them stand for."""

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from completions.bills import comparison, importing, samples
from completions.bills.files import UPLOADED_BYTES_MAX, File, Refused
from completions.bills.reading import EXACT
from completions.models import Bill, BillComparison, BilledModel, Provider
from completions.models.bills import UNEXPLAINED
from gateway_project.activity import log
from gateway_project.activity.admin_pages import ReadOnlyAdmin, RecordedAdmin
from gateway_project.activity.list_values import column, moment
from gateway_project.templatetags.amounts import usd
from gateway_project.text import dollars
from gateway_project.text.dollars import Amount


def _usd(found: Decimal | int | None) -> str:
    """Show nanodollars, or an amount of a bill, of whose digits nanodollars are shown at most."""
    if found is None or isinstance(found, int):
        return "not known" if found is None else usd(found)
    nanos = int(EXACT.scaleb(found, 9).to_integral_value(ROUND_HALF_UP, EXACT))
    return usd(Amount(dollars.show(nanos).shown, comparison.in_dollars(found)))


def _usd_column(title: str, read: Callable[[Any], Decimal | int | None], **options: Any) -> Any:
    return column(title, lambda row: _usd(read(row)), **options)


_AMOUNTS = ("expected", "billed", "unexplained", "cost", "charged")  # of facts
_NUMBERS = (*_AMOUNTS, "line", "lines", "tokens", "failed", "input", "output")


def _cells(facts: list[samples.Facts]) -> list[dict[str, Any]]:
    return [{of: comparison.in_dollars(Decimal(to)) if of in _AMOUNTS else to for of, to in each.items()} for each in facts]


@admin.register(BillComparison)
class BillComparisonAdmin(ReadOnlyAdmin):
    list_display = ("name", "at", "day", "charged", "expected", "billed", "difference", "unexplained", "why")
    list_filter = ("provider", "finding", "day")
    search_fields = ("name",)
    search_help_text = "A part of a model's ID, or of a name on a bill."
    ordering = (UNEXPLAINED.desc(), "-day", "pk")
    fields = (
        *("provider", "day", "name", "charged", "expected", "billed", "difference", "explained", "unexplained", "why"),
        *("completions", "lines", "bill", "compared_at"),
    )

    at = column("provider", lambda row: row.provider_id, ordering="provider")
    charged = _usd_column("charged", lambda row: row.charged_nanos, ordering="charged_nanos")
    expected = _usd_column("expected cost", lambda row: row.expected_nanos, ordering="expected_nanos")
    billed = _usd_column("billed", lambda row: row.billed_usd, ordering="billed_usd")
    difference = _usd_column("difference", comparison.difference)
    why = column("finding", lambda row: row.get_finding_display() or ("" if row.unexplained_usd else "agrees"))

    @admin.display(description="unexplained", ordering=UNEXPLAINED)
    def unexplained(self, row: BillComparison) -> str:
        shown = "{}, {} by hour" if row.hours_usd > abs(row.unexplained_usd) else "{}"
        return format_html(shown, _usd(row.unexplained_usd), _usd(row.hours_usd))

    @admin.display(description="explained by")
    def explained(self, row: BillComparison) -> SafeString | str:
        found = ((_usd(Decimal(of)), comparison.REASONS[reason]) for reason, of in row.reasons.items())
        return format_html_join("; ", "{} {}", found) or "nothing"

    def change_view(self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        row = self.get_object(request, object_id)
        if row is not None and self.has_view_permission(request, row):
            tables = {"Hours (UTC) that do not agree": row.hours} if row.hours else {}
            tables["Lines of the bill that cost most"] = samples.lines(row)
            if request.user.has_perm("completions.view_completion"):
                tables["Completions, first those whose cost at the provider is uncertain"] = samples.completions(row)
            shown = {"tables": {title: _cells(facts) for title, facts in tables.items()}, "numbers": _NUMBERS}
            extra_context = {**(extra_context or {}), **shown}
        return super().change_view(request, object_id, form_url, extra_context)


class UploadForm(forms.Form):
    provider = forms.ModelChoiceField(Provider.objects.order_by("pk"))
    file = forms.FileField(
        help_text="CSV or JSON, also in gzip or zip, up to 2.4 MB. Import larger files with the command import_bill.",
        widget=forms.FileInput(attrs={"accept": ".csv,.json,.gz,.zip"}),
    )


class _OneByOne:
    """Lets the action that deletes several do with each what its page does: the days are compared anew."""

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for each in queryset:
            self.delete_model(request, each)  # type: ignore[attr-defined]


@admin.register(Bill)
class BillAdmin(_OneByOne, ReadOnlyAdmin):
    list_display = ("file_name", "provider", "format", "lines", "total", "others", "at")
    list_filter = ("provider", "format")
    ordering = ("-pk",)
    fields = ("provider", "file_name", "format", "days_covered", "lines", "total", "lines_left_out", "at")
    own_pages = {"import/": "import"}

    total = _usd_column("total", lambda bill: bill.total_usd, ordering="total_usd")
    at = column("imported at", lambda bill: moment(bill.begun_at), ordering="begun_at")
    days_covered = column("UTC days", lambda bill: f"{bill.days[0]} to {bill.days[-1]}, {len(bill.days)} with costs")
    lines_left_out = column("lines left out", lambda bill: importing.left_out_words(bill) or "none")
    others = column("other lines", lambda bill: f"{sum(kind['lines'] for kind in bill.left_out.values()):,}")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Bill]:
        return super().get_queryset(request).filter(finished_at__isnull=False)

    def has_import_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("completions.add_bill"))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("completions.delete_bill"))

    def import_view(self, request: HttpRequest) -> HttpResponse:
        """Show the form of an import; on POST, import the file."""
        if not (self.has_view_permission(request) and self.has_import_permission(request)):
            raise PermissionDenied("completions.add_bill")
        form = UploadForm(request.POST or None, request.FILES or None)
        if form.is_valid():
            provider, uploaded = form.cleaned_data["provider"], form.cleaned_data["file"]
            try:
                bill, is_new = importing.run(provider, [File(uploaded.name, uploaded)], UPLOADED_BYTES_MAX)
            except Refused as refusal:
                form.add_error("file", str(refusal))
            else:
                if is_new:
                    with transaction.atomic():
                        log.record(request, log.Act.ADDED, bill, f"Imported {bill}.")
                message = f"Imported {bill.lines:,} lines." if is_new else "This bill was imported before. Nothing changed."
                messages.success(request, message)
                return self.back_to(bill)
        return self.show_action(request, "admin/completions/bill/import.html", "Import a bill", None, form=form)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Only the bill itself needs a permission: its lines have no pages."""
        return [str(bill) for bill in objs], {}, set(), []

    def delete_model(self, request: HttpRequest, obj: Bill) -> None:
        obj.delete()
        comparison.compare(obj.provider_id, *obj.days)


@admin.register(BilledModel)
class BilledModelAdmin(_OneByOne, RecordedAdmin):
    """Names on bills, and the models that they stand for. The days that have them are compared anew at once."""

    list_display = ("name", "provider", "model")
    list_filter = ("provider",)
    search_fields = ("name", "model__id")
    ordering = ("provider", "name")
    autocomplete_fields = ("model",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("provider", "name") if obj else ()  # the days with a former name would not be compared anew

    def save_model(self, request: HttpRequest, obj: BilledModel, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        comparison.compare_name(obj)

    def delete_model(self, request: HttpRequest, obj: BilledModel) -> None:
        super().delete_model(request, obj)
        comparison.compare_name(obj)
