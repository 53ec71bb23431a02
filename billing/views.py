"""GET /api/billing/balance and /api/billing/ledger, for the account whose key asks."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing import books
from billing.serializers import BalanceSerializer, LedgerEntrySerializer, LedgerPageSerializer, LedgerQuerySerializer


class BalanceView(APIView):
    @extend_schema(responses=BalanceSerializer)
    def get(self, request: Request) -> Response:
        return Response(BalanceSerializer(request.user).data)


class LedgerView(APIView):
    @extend_schema(parameters=[LedgerQuerySerializer], responses=LedgerPageSerializer)
    def get(self, request: Request) -> Response:
        query = LedgerQuerySerializer(data=request.query_params)
        query.is_valid(raise_exception=True)
        entries = books.page(request.user, **query.validated_data)
        data = LedgerEntrySerializer(entries, many=True).data
        return Response({"entries": data, **query.validated_data, "count": len(data)})
