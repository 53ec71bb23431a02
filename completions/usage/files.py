"""The usage page as CSV files: by UTC day and group, and in the columns of FOCUS 1.2, https://focus.finops.org.

Text that callers or members chose cannot act as a spreadsheet formula. No database connection is held between two days. Unit
prices are empty: the tokens of a row have different prices.
"""

from collections.abc import Generator, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from billing.models import Account
from completions.usage import figures
from completions.usage.figures import Group, Grouping, Kind, Sums
from completions.usage.ranges import Range
from gateway_project.activity import log
from gateway_project.db import pool
from gateway_project.text import compact_json, csv_text, dollars, timestamps
from gateway_project.web import downloads

COLUMNS = [
    *("since", "until", "groupedBy", "group", "value", "name", "requests", "errors", "promptTokens", "completionTokens"),
    *("costInDollars", "timedStreams", "meanFirstTokenMs"),
]
_ROWS_AT_ONCE = 250


def write_usage(
    account: Account, shown: Range, grouping: Grouping, title: str, key_names: Mapping[str, str]
) -> Generator[bytes, None, None]:
    """Yield the file of the page: a line for each group of each day. ``title`` is of the grouping."""
    yield csv_text.write_lines([COLUMNS])
    for since, until in shown.days():
        rows = figures.read_groups(account, since, until, grouping)
        pool.release_connection()
        span = [timestamps.iso_millis(since), timestamps.iso_millis(until), csv_text.text_cell(title)]
        names = key_names if grouping == figures.KEY else {}
        yield from _in_parts([[*span, *_cells(group, used, names)] for group, used in rows])


def respond(
    request: HttpRequest, account: Account, filename: str, lines: Generator[bytes, None, None], summary: str, **details: Any
) -> HttpResponseBase:
    """Return a file of the account, and record the download in its activity log."""
    file = {"filename": filename, "content_type": "text/csv", "downloader": f"user {request.user.pk}"}
    response = downloads.respond(lines, **file, subject="the account's books")
    with transaction.atomic():
        log.record(request, log.Act.USAGE_EXPORTED, account, summary, **details)
    return response


def _cells(group: Group, used: Sums, names: Mapping[str, str]) -> list[Any]:
    return [
        "value" if group.kind is Kind.TOLD else "none",
        *map(csv_text.text_cell, (group.value, names.get(group.value, ""))),
        *(used.requests, used.errors, used.prompt_tokens, used.completion_tokens),
        *(dollars.format_plain(used.cost_nanos), used.first_tokens, used.mean_first_token_ms),
    ]


def _in_parts(rows: list[list[Any]]) -> Generator[bytes, None, None]:
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        yield csv_text.write_lines(rows[first : first + _ROWS_AT_ONCE])


_EMPTY = ("ChargeClass", "ContractedUnitPrice", "ListUnitPrice", "RegionId", "RegionName", "SkuPriceId", "SubAccountId")
_CONSTANT: dict[str, str | None] = {
    **dict.fromkeys((*_EMPTY, "SubAccountName")),
    **dict.fromkeys(("InvoiceIssuerName", "ProviderName", "PublisherName", "ServiceName"), "Model Gateway"),
    **dict.fromkeys(("ConsumedUnit", "PricingUnit"), "Tokens"),
    "BillingAccountType": "Prepaid account",
    "BillingCurrency": "USD",
    "ChargeCategory": "Usage",
    "ChargeFrequency": "Usage-Based",
    "PricingCategory": "Standard",
    "ServiceCategory": "AI and Machine Learning",
    "ServiceSubcategory": "Generative AI",
}
_COSTS = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost")
_QUANTITIES = ("ConsumedQuantity", "PricingQuantity")
_OF_ACCOUNT = ("BillingAccountId", "BillingAccountName")
_TIMES = ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd")
_OF_KEY = ("ChargeDescription", "ResourceId", "ResourceName", "ResourceType", "SkuId", "Tags")
FOCUS_COLUMNS = sorted(
    {*_CONSTANT, *_COSTS, *_QUANTITIES, *_OF_ACCOUNT, *_TIMES, *_OF_KEY, "x_Errors", "x_Requests"},
    key=lambda name: (name.startswith("x_"), name),
)


def write_focus(
    account: Account, shown: Range, grouping: Grouping, key_names: Mapping[str, str]
) -> Generator[bytes, None, None]:
    """Yield the file in FOCUS columns: a line for each key and model of each day; or, by a label, for each of its values."""
    yield csv_text.write_lines([FOCUS_COLUMNS])
    for since, until in shown.days():
        if grouping.label_name is None:
            found = figures.read_keys_with_models(account, since, until)
            rows = [(used, _key_cells(key_id, model_id, key_names)) for key_id, model_id, used in found]
        else:
            groups = figures.read_groups(account, since, until, grouping)
            rows = [(used, _tag_cells(group, grouping.label_name or "user")) for group, used in groups]
        pool.release_connection()
        common = {**_CONSTANT, **_period_cells(account, since, until)}
        cells = [{**common, **_cost_cells(used), **own} for used, own in rows]
        yield from _in_parts([[row.get(column) for column in FOCUS_COLUMNS] for row in cells])


def _period_cells(account: Account, since: datetime, until: datetime) -> dict[str, Any]:
    month = since.replace(day=1, hour=0)
    next_month = datetime(month.year + month.month // 12, month.month % 12 + 1, 1, tzinfo=UTC)
    of_account = dict(zip(_OF_ACCOUNT, (account.pk, csv_text.text_cell(account.name)), strict=True))
    times = zip(_TIMES, (month, next_month, since, until), strict=True)
    return {**of_account, **{name: moment.strftime("%Y-%m-%dT%H:%M:%SZ") for name, moment in times}}


def _cost_cells(used: Sums) -> dict[str, Any]:
    costs = dict.fromkeys(_COSTS, dollars.format_plain(used.cost_nanos))
    return {**costs, **dict.fromkeys(_QUANTITIES, used.tokens), "x_Requests": used.requests, "x_Errors": used.errors}


def _key_cells(key_id: str, model_id: str, key_names: Mapping[str, str]) -> dict[str, Any]:
    texts = (f"Completions of {model_id}", key_id, key_names.get(key_id, ""), "API key", model_id)
    return dict(zip(_OF_KEY, (*map(csv_text.text_cell, texts), "{}"), strict=True))


def _tag_cells(group: Group, name: str) -> dict[str, Any]:
    is_told = group.kind is Kind.TOLD
    words, tags = (f"with {name} {group.value}", {name: group.value}) if is_told else (f"without {name}", {})
    return {"ChargeDescription": csv_text.text_cell(f"Completions {words}"), "Tags": compact_json.dumps(tags).decode()}
