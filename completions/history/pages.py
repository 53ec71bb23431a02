"""/dashboard/requests/: the latest requests of the account, and for each what it cost and why, or why it was refused."""

from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render

from billing.accounts.list_forms import ListForm, spender_field
from billing.accounts.member_pages import act_page, page_of, plain_page
from billing.ledger.writer import OVERCHARGE
from billing.models import Account, Hold, LedgerEntry
from completions.history import explanation, files, reading
from completions.history.explanation import Status
from completions.history.reading import Selection
from completions.models import Completion
from completions.usage import figures, ranges
from completions.usage import files as usage_files
from gateway_project.db import pool
from keys.models import RefusedRequest, Run
from keys.refusal_history import summaries as refusal_summaries
from keys.refusal_history import tables

REQUESTS_PER_PAGE = 25
_ID_CHARACTERS_MAX = 64
REFUSED = "refused"
_STATUSES = [("", "All"), *((status.name.lower(), status.words.capitalize()) for status in Status)]


class HistoryForm(ListForm):
    """The filters of the list."""

    field_order = ("status", "key", "model", "user", "run", "tag", "since", "until")

    status = forms.ChoiceField(required=False, choices=[*_STATUSES, (REFUSED, "Refused before sending")])
    key = forms.ChoiceField(required=False)
    model = forms.CharField(required=False, widget=forms.Select)
    user = forms.CharField(required=False, max_length=512, label="End user", strip=False)
    run = forms.CharField(required=False, max_length=Run.NAME_CHARACTERS_MAX, strip=False)
    tag = forms.CharField(
        required=False, max_length=600, strip=False, widget=forms.TextInput(attrs={"placeholder": "team=blue"})
    )
    older = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    newer = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def __init__(self, account: Account, data: Any) -> None:
        super().__init__(data)
        month, asked = ranges.preset("30d", pool.database_time()), data.get("model") or ""
        used = {group.value for group, _ in figures.read_groups(account, month.since, month.until, figures.MODEL)}
        self.fields["key"] = spender_field(account)
        self.field("model").widget.choices = [("", "All models"), *((each, each) for each in sorted({*used, asked} - {""}))]

    def clean_tag(self) -> tuple[str, str] | None:
        name, is_tag, value = self.cleaned_data["tag"].partition("=")
        if self.cleaned_data["tag"] and not (name and is_tag):
            raise forms.ValidationError("Write a tag as name=value.")
        return (name, value) if is_tag else None

    @property
    def shows_refusals(self) -> bool:
        return bool(self.cleaned_data["status"] == REFUSED)

    @property
    def selection(self) -> Selection:
        given = self.cleaned_data
        return Selection(
            key_id=given["key"] or None,
            model_id=given["model"] or None,
            status=Status[given["status"].upper()] if given["status"] else None,
            end_user=given["user"] or None,
            tag=given["tag"],
            run=given["run"] or None,
            since=self.begin,
            until=self.end,
        )


@plain_page()
def list_requests(request: HttpRequest, account: Account) -> HttpResponse:
    """List the account's requests, newest first, with filters. ``?id=`` leads to the request of that id."""
    wanted = request.GET.get("id", "").strip()
    if wanted and _find(account, wanted):
        return redirect("request", wanted)
    form = HistoryForm(account, request.GET)
    context: dict[str, Any] = {
        "form": form,
        "not_found": wanted,
        "is_filtered": any(request.GET.values()),
        "exported_max": files.EXPORTED_MAX,
        "kept_days": settings.RETENTION_DETAIL_DAYS,
    }
    if not form.is_valid():
        return render(request, "requests/list.html", context, status=400)
    content = _refusals(request, account, form) if form.shows_refusals else _completions(request, account, form)
    return render(request, "requests/list.html", {**context, **content})


def _completions(request: HttpRequest, account: Account, form: HistoryForm) -> dict[str, Any]:
    given = form.cleaned_data
    place = {"older_than": given["older"] or None, "newer_than": given["newer"] or None}
    page = reading.read_page(account.pk, form.selection, limit=REQUESTS_PER_PAGE, **place)
    searched = Completion.objects.filter(pk=page.searched_to) if page.searched_to else Completion.objects.none()
    return {
        "rows": [row(completion) for completion in page.completions],
        "has_runs": any(completion.run for completion in page.completions),
        **form.places(page.newer, page.older, oldest=reading.FIRST),
        "searched_to": searched.values_list("created_at", flat=True).first(),
        "searched_max": reading.SEARCHED_MAX,
        "filters": form.address(),
    }


def _refusals(request: HttpRequest, account: Account, form: HistoryForm) -> dict[str, Any]:
    given = form.cleaned_data
    wanted = {"key": given["key"], "model": given["model"], "at__gte": form.begin, "at__lt": form.end}
    found = refusal_summaries.of_account(account).filter(**{name: value for name, value in wanted.items() if value})
    page = page_of(request, found, REQUESTS_PER_PAGE)
    return {
        "refused": [{"refusal": each, "words": refusal_summaries.describe_error(each.error)} for each in page],
        "page": page,
        "kept_of_each_key": tables.LATEST_MAX,
        "refusals_kept_days": settings.RETENTION_REFUSAL_DAYS,
    }


@act_page()
def download_requests(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Download the requests that the filters select, without refused ones. The activity log records the download."""
    form = HistoryForm(account, request.GET)
    if not form.is_valid() or form.shows_refusals:
        raise BadRequest("The filters in this address are damaged.")
    lines, after = files.write_requests(account.pk, form.selection), {"filters": form.filters}
    return usage_files.respond(request, account, "requests.csv", lines, "Downloaded requests.csv.", after=after)


@plain_page()
def show_request(request: HttpRequest, account: Account, request_id: str) -> HttpResponse:
    """Show a completion, or a refused request by its request id. An archived completion shows its ledger entry."""
    found = _find(account, request_id)
    if found is None:
        raise Http404
    if isinstance(found, Completion):
        return render(request, "requests/completion.html", explain(found))
    if isinstance(found, LedgerEntry):
        archived = {"entry": found, "cost_nanos": -found.amount_nanos, "kept_days": settings.RETENTION_DETAIL_DAYS}
        return render(request, "requests/archived.html", archived)
    return render(request, "requests/refused.html", {"refusal": _describe(found)})


def _find(account: Account, some_id: str) -> Completion | RefusedRequest | LedgerEntry | None:
    """Find a completion by its id or request id, the refusal of a request, or the ledger entry of an archived completion."""
    if len(some_id) > _ID_CHARACTERS_MAX or "\x00" in some_id:
        return None
    completions = Completion.objects.filter(account=account).select_related("key", "price")
    return (
        completions.filter(pk=some_id).first()
        or completions.filter(request_id=some_id).first()
        or refusal_summaries.of_account(account).filter(request_id=some_id).first()
        or LedgerEntry.objects.filter(account=account, reference=some_id, type=LedgerEntry.Type.USAGE_DEBIT).first()
    )


def explain(completion: Completion) -> dict[str, Any]:
    """Return what the pages of owners and of staff tell of a completion."""
    refused = RefusedRequest.objects.filter(request_id=completion.request_id, key=completion.key_id).first()
    corrections = Completion.objects.filter(repeats=completion.pk, settlement=Completion.Settlement.CORRECTED)
    charge = explanation.explain_charge(completion, Hold.objects.get(pk=completion.pk))
    return {
        "completion": completion,
        "status": explanation.status_of(completion),
        "settlement": explanation.describe_settlement(completion),
        "charge": charge,
        "shown": explanation.show_charge(charge),
        "attempts": explanation.list_attempts(completion),
        "demands": explanation.describe_demands(completion),
        "total_ms": explanation.total_ms(completion),
        "entry": LedgerEntry.objects.filter(reference=completion.pk).first(),
        "correction_id": corrections.values_list("pk", flat=True).first(),
        "is_correction": completion.settlement == Completion.Settlement.CORRECTED,
        "given_back": LedgerEntry.objects.filter(reference=f"{OVERCHARGE}{completion.pk}").first(),
        "refusal": _describe(refused) if refused else None,
    }


def row(completion: Completion) -> dict[str, Any]:
    return {
        "completion": completion,
        "status": explanation.status_of(completion),
        "tokens": explanation.total_tokens(completion),
        "seconds": _seconds(explanation.total_ms(completion)),
        "first_token_seconds": _seconds(completion.first_token_ms),
    }


def _seconds(milliseconds: int | None) -> str:
    return "" if milliseconds is None else f"{milliseconds / 1000:.2f} s"


def _describe(refused: RefusedRequest) -> dict[str, Any]:
    words, advice = refusal_summaries.describe_error(refused.error), refusal_summaries.advise(refused.error)
    return {"row": refused, "words": words, "advice": advice}
