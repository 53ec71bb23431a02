"""The query parameters of GET /api/billing/ledger and /api/billing/ledger.csv, which fill in an ``EntryFilter``."""

from typing import Any

from django.http import QueryDict

from billing.ledger.reading import LIMIT_DEFAULT, LIMIT_MAX
from billing.models import LedgerEntry
from gateway_project import errors
from gateway_project.web.query_parameters import Choice, ParameterSet, Text, Time, WholeNumber

_KEY_ID_CHARACTERS_MAX = 64


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

    limit = WholeNumber(1, LIMIT_MAX, default=LIMIT_DEFAULT, description="Maximum number of entries to return.")
    offset = WholeNumber(0, None, default=0, description="How many of the entries that match to skip.")
