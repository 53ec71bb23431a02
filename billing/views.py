"""GET /api/billing/balance, /api/billing/ledger and /api/billing/ledger.csv, for the account of the API key."""

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing import ledger_csv, ledger_pages
from billing.models import Account
from billing.serializers import (
    BalanceSerializer,
    LedgerEntrySerializer,
    LedgerFilterSerializer,
    LedgerPageSerializer,
    LedgerQuerySerializer,
)


class BalanceView(APIView):
    @extend_schema(responses=BalanceSerializer)
    def get(self, request: Request) -> Response:
        return Response(BalanceSerializer(_account(request)).data)


class LedgerView(APIView):
    @extend_schema(parameters=[LedgerQuerySerializer], responses=LedgerPageSerializer)
    def get(self, request: Request) -> Response:
        # As a dict: in a QueryDict, DRF would accept "?limit=" as an empty form field.
        query = LedgerQuerySerializer(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        place = {name: query.validated_data[name] for name in ("limit", "offset")}
        entries = ledger_pages.read_page(_account(request), **place, entry_filter=query.entry_filter)
        data = [LedgerEntrySerializer(entry).data for entry in entries]
        return Response({"entries": data, **place, "count": len(data)})


class LedgerCsvView(APIView):
    http_method_names = ["get", "options"]  # no HEAD: it would do the work of a GET and discard the result

    @extend_schema(parameters=[LedgerFilterSerializer], responses={(200, ledger_csv.CONTENT_TYPE): OpenApiTypes.STR})
    def get(self, request: Request) -> StreamingHttpResponse:
        query = LedgerFilterSerializer(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        return ledger_csv.download(_account(request), query.entry_filter)


def _account(request: Request) -> Account:
    """Return the account of the API key. The authentication class in the settings sets it as ``request.user``."""
    assert isinstance(request.user, Account)
    return request.user
