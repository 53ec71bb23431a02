"""GET /api/billing/balance and /api/billing/ledger, for the account whose key asks."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing import books
from billing.models import Account
from billing.serializers import BalanceSerializer, LedgerEntrySerializer, LedgerPageSerializer, LedgerQuerySerializer


class BalanceView(APIView):
    @extend_schema(responses=BalanceSerializer)
    def get(self, request: Request) -> Response:
        return Response(BalanceSerializer(_account(request)).data)


class LedgerView(APIView):
    @extend_schema(parameters=[LedgerQuerySerializer], responses=LedgerPageSerializer)
    def get(self, request: Request) -> Response:
        # As a dict: in a QueryDict, DRF would take "?limit=" for a field of a form that was left empty, and not refuse it.
        query = LedgerQuerySerializer(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        entries = books.page(_account(request), **query.validated_data)
        data = [LedgerEntrySerializer(entry).data for entry in entries]
        return Response({"entries": data, **query.validated_data, "count": len(data)})


def _account(request: Request) -> Account:
    """Whose key this is. The authentication that the settings name puts the account here."""
    assert isinstance(request.user, Account)
    return request.user
