"""GET /api/billing/balance, .../ledger, .../ledger/proof and .../ledger.csv, for the account of the API key."""

from dataclasses import dataclass
from typing import Any

from django.http import QueryDict, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.ledger import reading, statement
from billing.models import Account, LedgerEntry, LedgerRoot
from billing.proof import chain, inclusion
from billing.serializers import BalanceSerializer, LedgerEntrySerializer, LedgerPageSerializer, LedgerProofSerializer
from gateway_project import errors
from gateway_project.web.openapi import specification
from gateway_project.web.query_parameters import Choice, FilteredView, ParameterSet, Text, Time, WholeNumber

_ERRORS = specification.error_responses(errors.InvalidRequest, errors.InvalidApiKey, errors.RateLimitExceeded)
_KEY_ID_CHARACTERS_MAX = 64
_NUMBER_MAX = 2**63 - 1


class LedgerFilterSet(ParameterSet):
    """Selects entries. A parameter that is left out selects all."""

    type = Choice(tuple(LedgerEntry.Type.values), description="Only entries of this type.")
    apiKey = Text(
        _KEY_ID_CHARACTERS_MAX, attribute="spender", description="Only the completions of this API key. The id of the key."
    )

    @classmethod
    def get_filters(cls) -> dict[str, Any]:
        # "from" is a Python keyword and cannot be the name of a class attribute.
        since = Time(attribute="since", description="Only entries booked then or later: ISO 8601 with Z or an offset.")
        until = Time(
            attribute="until", description="Only entries booked before: ISO 8601 with Z or an offset. Not before `from`."
        )
        return {**super().get_filters(), "from": since, "to": until}

    @classmethod
    def select(cls, selection: Any, given: QueryDict) -> Any:
        selection = super().select(selection, given)
        if selection.since and selection.until and selection.until < selection.since:
            raise errors.wrong("to", "must not be before from")
        return selection


class LedgerPageFilterSet(LedgerFilterSet):
    """Selects one page of entries."""

    limit = WholeNumber(1, reading.LIMIT_MAX, default=reading.LIMIT_DEFAULT, description="Maximum number of entries to return.")
    offset = WholeNumber(0, None, default=0, description="How many of the entries that match to skip.")


class BalanceView(APIView):
    @specification.extend_schema(
        operation_id="retrieveBalance",
        summary="Retrieve the balance",
        description="The account's balance. Holds of running requests are not subtracted.",
        responses={200: BalanceSerializer, **specification.error_responses(errors.InvalidApiKey, errors.RateLimitExceeded)},
    )
    def get(self, request: Request) -> Response:
        return Response(BalanceSerializer(_account(request)).data)


class LedgerView(FilteredView):
    queryset = LedgerEntry.objects.none()
    filterset_class = LedgerPageFilterSet

    @specification.extend_schema(
        operation_id="listLedgerEntries",
        summary="List ledger entries",
        description="A page of the account's entries that match the filters, the most recent first.",
        filters=True,
        responses={200: LedgerPageSerializer, **_ERRORS},
    )
    def get(self, request: Request) -> Response:
        page = self.select(reading.EntryPage())
        entries = reading.read_page(_account(request), limit=page.limit, offset=page.offset, entry_filter=page)
        represent = LedgerEntrySerializer().to_representation
        data = [represent(entry) for entry in entries]
        return Response({"entries": data, "limit": page.limit, "offset": page.offset, "count": len(data)})


class LedgerCsvView(FilteredView):
    http_method_names = ["get", "options"]  # no HEAD: it would do the work of a GET and discard the result
    queryset = LedgerEntry.objects.none()
    filterset_class = LedgerFilterSet

    @specification.extend_schema(
        operation_id="downloadLedger",
        summary="Download ledger entries as a CSV file",
        description="All entries of the account that match the filters, the most recent first, with a header line.",
        filters=True,
        responses={(200, statement.CSV_TYPE): OpenApiTypes.STR, **_ERRORS},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        entry_filter = self.select(reading.ALL_ENTRIES)
        return statement.download_csv(_account(request), entry_filter, downloader=request.auth.pk)


@dataclass(frozen=True)
class ProofSelection:
    root: int | None = None
    after_entry: int | None = None
    after_root: int | None = None
    limit: int = 100


class ProofFilterSet(ParameterSet):
    """Selects a root, and what is listed after an entry or a root that the caller has."""

    root = WholeNumber(1, _NUMBER_MAX, description="The number of a root. Without it, the latest.")
    afterEntry = WholeNumber(
        0, _NUMBER_MAX, attribute="after_entry", description="List the entries after the one with this number: 0 for all."
    )
    afterRoot = WholeNumber(
        0, _NUMBER_MAX, attribute="after_root", description="List the roots after the one with this number: 0 for all."
    )
    limit = WholeNumber(1, 1_000, default=100, description="Maximum number of entries, and of roots, to list.")


class ProofView(FilteredView):
    queryset = LedgerRoot.objects.none()
    filterset_class = ProofFilterSet

    @specification.extend_schema(
        operation_id="proveLedger",
        summary="Prove the ledger",
        description="The account's last entry, a signed root that includes it, and what followed an entry or a root.",
        filters=True,
        responses={200: LedgerProofSerializer, **_ERRORS},
    )
    def get(self, request: Request) -> Response:
        account, selected = _account(request), self.select(ProofSelection())
        last = LedgerRoot.objects.order_by("-number").first()
        last_seq, last_hash = chain.read_last(account.pk)  # after the root, or it might include a later entry
        _require("afterEntry", selected.after_entry, last_seq, "the last entry")
        for name, number in (("afterRoot", selected.after_root), ("root", selected.root)):
            _require(name, number, last.number if last else 0, "the last root")
        root = LedgerRoot.objects.get(pk=selected.root) if selected.root else last
        roots, entries = list[LedgerRoot](), list[chain.RecordedEntry]()
        if selected.after_root is not None:
            after = LedgerRoot.objects.filter(number__gt=selected.after_root).order_by("number")
            roots = list(after.defer("parts")[: selected.limit])
        if selected.after_entry is not None:
            entries = chain.read_between(account.pk, selected.after_entry, last_seq, limit=selected.limit)
        proof = {
            "account": account.pk,
            "head": {"entry": last_seq, "hash": last_hash} if last_hash else None,
            "root": root,
            "inclusion": inclusion.find(account.pk, root) if root else None,
            "entries": entries,
            "roots": roots,
        }
        return Response(LedgerProofSerializer(proof).data)


def _require(name: str, number: int | None, last: int, what: str) -> None:
    if number is not None and number > last:
        raise errors.wrong(name, f"must be at most {last}, the number of {what}")


def _account(request: Request) -> Account:
    """Return the account of the API key. The authentication class in the settings sets it as ``request.user``."""
    assert isinstance(request.user, Account)
    return request.user
