"""GET /api/billing/balance, /api/billing/ledger and /api/billing/ledger.csv, for the account of the API key."""

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.filters import LedgerFilterSet, LedgerPageFilterSet
from billing.ledger import reading, statement
from billing.ledger.reading import EntryPage
from billing.models import Account, LedgerEntry
from billing.serializers import BalanceSerializer, LedgerEntrySerializer, LedgerPageSerializer
from gateway_project import errors
from gateway_project.web.openapi import specification
from gateway_project.web.query_parameters import FilteredView

_ERRORS = specification.error_responses(errors.InvalidRequest, errors.InvalidApiKey, errors.RateLimitExceeded)


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
        page = self.select(EntryPage())
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


def _account(request: Request) -> Account:
    """Return the account of the API key. The authentication class in the settings sets it as ``request.user``."""
    assert isinstance(request.user, Account)
    return request.user
