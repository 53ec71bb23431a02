"""GET /v1/usage/export: records to book, of an API key's own completions, or by a management key of the whole account's."""

from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request

from billing.models import LedgerEntry
from completions.inbound import descriptions, request_fields
from completions.inbound.completion_view import RatedView
from completions.models import Completion
from completions.pricing import meters
from completions.usage import export
from gateway_project import errors
from gateway_project.web import query_parameters
from gateway_project.web.openapi import fields
from gateway_project.web.openapi.fields import AnyObject, Choice, Count, Flag, Integer, Moment, SchemaField, Shape, Text
from keys.key_api.authentication import ReaderAuthentication
from keys.models import ApiKey

_COUNTS = {meter.count: Count(f"{meter.noun.capitalize()}. null: kept no longer.", allow_null=True) for meter in meters.METERS}
_CURSOR_CHARACTERS_MAX = 40
ExportedUsage = fields.shape("ExportedUsage", **_COUNTS)


class ExportedDetails(Shape):
    provider = Text("The provider that answered, or was asked last.")
    user = Text("As its request said: user, or else safety_identifier.", allow_null=True)
    metadata = SchemaField(request_fields.TAGS, "As its request said.", allow_null=True)
    run = Text("As its x-gateway-run said.", allow_null=True)
    service_tier = Text("The tier whose prices were charged, if it has its own.", allow_null=True)
    request_id = Text("The x-request-id of the reply.", allow_null=True)
    provider_request_id = Text("The provider's own id.", allow_null=True)
    data_demanded = AnyObject("The demands about data, by who made them. null: none.", allow_null=True)
    data_promised = AnyObject("What the route that served promised. null: nothing was demanded.", allow_null=True)


class ExportedRecord(Shape):
    seq = Integer("The number of the ledger entry in the account.", min_value=1)
    id = Text("The id of the ledger entry.")
    booked_at = Moment("When it was booked.")
    kind = Choice(export.KINDS, "What it is about its completion.")
    completion = Text("The id of the completion.")
    supersedes = Text("The completion whose figures it adds to or corrects.", allow_null=True)
    cost_in_dollars = Text("What it took from the balance, exactly. Negative: it was given back.")
    key = Text("The id of the key.", allow_null=True)
    model = Text("The model that answered.")
    settlement = Choice(Completion.Settlement.choices, "How its charge was found. null: of a refund.", allow_null=True)
    usage = ExportedUsage(allow_null=True, help_text="null: of a refund.")
    details = ExportedDetails(allow_null=True, help_text="null: kept no longer.")


class UsageExport(Shape):
    data = ExportedRecord(many=True, help_text="The records, in the order of the ledger.")  # type: ignore[assignment]
    checksum = Text("SHA-256 of the bytes of data, as they are in this reply: 64 hexadecimal digits.")
    next_cursor = Text("Where the next page begins.")
    has_more = Flag("Whether there is a next page now.")


class ExportFilterSet(query_parameters.ParameterSet):
    """Selects one page of records."""

    cursor = query_parameters.Text(_CURSOR_CHARACTERS_MAX, description="The next_cursor of the page before.")
    until = query_parameters.Text(_CURSOR_CHARACTERS_MAX, description="A next_cursor, after which nothing is read.")
    limit = query_parameters.WholeNumber(
        1, export.LIMIT_MAX, default=export.LIMIT_DEFAULT, description="Maximum number of records to return."
    )


class UsageExportView(query_parameters.FilteredView, RatedView):
    authentication_classes = [ReaderAuthentication]
    queryset = LedgerEntry.objects.none()
    filterset_class = ExportFilterSet

    @descriptions.key_read(
        "exportUsage",
        "Export usage to book",
        "A record for each ledger entry about usage, oldest first: of the API key, or by a management key of its account.",
        UsageExport,
        errors.InvalidRequest,
        auth=[{"apiKey": []}, {"managementKey": []}],
        filters=True,
    )
    def get(self, request: Request) -> HttpResponse:
        key: Any = request.auth
        query = self.select(export.Query(key.account_id, key.pk if isinstance(key, ApiKey) else None))
        return HttpResponse(export.read_page(query), content_type="application/json")
