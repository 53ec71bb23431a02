"""/dashboard/ledger/: the entries of the account with filters, and the CSV file of exactly what is filtered."""

from datetime import date
from typing import Any
from uuid import UUID

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

from billing.accounts.list_forms import ListForm, spender_field
from billing.accounts.member_pages import download_page, plain_page
from billing.ledger import reading, statement
from billing.models import Account, LedgerEntry
from gateway_project import app_config
from gateway_project.db import pool
from gateway_project.text import number_fields

ENTRIES_PER_PAGE = 25
MONTHS_SHOWN = 24
_MODEL_CHARACTERS_MAX = 200
_TYPES = [("", "All")] + [(kind.value, LedgerEntry(type=kind).title) for kind in LedgerEntry.Type]


class StatementForm(ListForm):
    """Which entries are listed."""

    type = forms.ChoiceField(required=False, choices=_TYPES)
    key = forms.ChoiceField(required=False)
    model = forms.CharField(required=False, max_length=_MODEL_CHARACTERS_MAX, label="Model ID")
    older = number_fields.IntegerField(required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput)
    newer = number_fields.IntegerField(required=False, min_value=0, max_value=2**63 - 2, widget=forms.HiddenInput)
    field_order = ("type", "key", "model", "since", "until")

    def __init__(self, account: Account, data: Any) -> None:
        super().__init__(data)
        self.fields["key"] = spender_field(account)

    @property
    def entry_filter(self) -> reading.EntryFilter:
        """The selection of a valid form."""
        given = {name: self.cleaned_data[name] or None for name in ("type", "key", "model")}
        return reading.EntryFilter(given["type"], given["key"], self.begin, self.end, given["model"])


@plain_page()
def show_statement(request: HttpRequest, account: Account) -> HttpResponse:
    """List the ledger entries that the filters select, newest first. ``?entry=`` is the id of an entry to begin with."""
    form = StatementForm(account, request.GET)
    context: dict[str, Any] = {"form": form, "is_filtered": bool(form.filters), "balance_nanos": account.balance_nanos}
    if not form.is_valid():
        return render(request, "dashboard/statement.html", context, status=400)
    opened = _entry(account, request.GET["entry"]) if "entry" in request.GET else None
    older_than = opened.seq + 1 if opened else form.cleaned_data["older"]
    newer_than = None if opened else form.cleaned_data["newer"]
    page = reading.read_beside(account, form.entry_filter, limit=ENTRIES_PER_PAGE, older_than=older_than, newer_than=newer_than)
    spent = {entry.spender for entry in page.entries if entry.spender}
    names = app_config.spender_names(account, ids=spent, limit=len(spent))
    rows = [statement.format_entry(entry, names=names) for entry in page.entries]
    searched = LedgerEntry.objects.filter(account=account, seq=page.searched_to) if page.searched_to else None
    context |= {
        **form.places(page.newer, page.older, oldest=0),
        "rows": rows,
        "shown": (page.entries[0].seq, page.entries[-1].seq) if page.entries and not form.filters else None,
        "count": account.last_seq,
        "head": page.entries[0] if page.entries and page.entries[0].seq == account.last_seq else None,
        "opened_id": opened.pk if opened else None,
        "csv_query": form.address() if form.filters else "",
        "months": months_of(account),
        "searched_to": searched.values_list("created_at", flat=True).first() if searched is not None else None,
        "searched_max": reading.SEARCHED_MAX,
    }
    return render(request, "dashboard/statement.html", context)


@download_page()
def download_statement(request: HttpRequest, account: Account) -> HttpResponseBase:
    form = StatementForm(account, request.GET)
    if not form.is_valid():
        raise form.refusal()
    return statement.download_csv(account, form.entry_filter, downloader=f"user {request.user.pk}")


def _entry(account: Account, entry_id: str) -> LedgerEntry:
    try:
        return LedgerEntry.objects.get(account=account, pk=UUID(entry_id))
    except (ValueError, LedgerEntry.DoesNotExist):
        raise Http404 from None


def months_of(account: Account) -> list[date]:
    """Return the first days of the last months in which the account had a ledger, the latest first."""
    first = LedgerEntry.objects.filter(account=account, seq=1).values_list("created_at", flat=True).first()
    if first is None:
        return []
    now = pool.database_time()
    number, begun = now.year * 12 + now.month - 1, first.year * 12 + first.month - 1
    return [date(each // 12, each % 12 + 1, 1) for each in range(number, max(begun, number - MONTHS_SHOWN + 1) - 1, -1)]
