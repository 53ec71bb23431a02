"""The exports of providers: which column says what. Pure data; a new format is one more ``Format``.

Names of columns are those of the sources, in lower case; where two sources or versions have different ones, all are here, the
first that a file has counts. Rows of JSON pages have dotted names. All times are in UTC, as each provider says.
"""

import re
from dataclasses import dataclass
from decimal import Decimal

Columns = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Format:
    """An export. ``model`` finds a group in one of the ``name`` columns; a line without it charges for something else.

    So does one whose ``kind`` or ``service`` is another. ``dollars``: of one unit of costs. ``final_days``: after so many the
    provider's figures of a day are final. ``wanted`` helps whoever brings a file that lacks a column.
    """

    title: str
    sources: tuple[str, ...]
    time: Columns
    cost: Columns
    name: Columns
    model: re.Pattern[str]
    currency: Columns = ()  # none: US dollars, as the name of the column of costs or its documentation says
    kind: Columns = ()
    kinds: frozenset[str] = frozenset()
    service: Columns = ()
    services: re.Pattern[str] = re.compile("")
    quantity: Columns = ()
    quantity_unit: Columns = ()
    account: Columns = ()
    request_id: Columns = ()
    dollars: Decimal = Decimal(1)
    is_month_first: bool = False
    final_days: int = 1
    wanted: str

    @property
    def required(self) -> dict[str, Columns]:
        """The columns without which it is not this format, by what they say."""
        roles = {"time": self.time, "cost": self.cost, "model": self.name, "currency": self.currency}
        return {role: columns for role, columns in {**roles, "request": self.request_id}.items() if columns}


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


_TOKENS = "(?:text|image|audio|video|thinking|cached?|cchd|cd|batch|flex|priority|ga|global|regional|geo)"
FORMATS = (
    Format(
        title="OpenAI costs",
        # The API's results, and two generations of the dashboard's CSV: the older one has no quantity and no api_key_id.
        sources=(
            "https://platform.openai.com/docs/api-reference/usage/costs",
            "https://help.openai.com/en/articles/10478918-api-usage-dashboard",
        ),
        time=("start_time",),
        cost=("amount_value", "amount.value"),
        currency=("amount_currency", "amount.currency"),
        name=("line_item",),
        # "gpt-5.5-2026-04-23, cached input", "priority | gpt-5.6-sol, output, long context", "gpt-audio-mini audio, input"
        model=_pattern(r"^(?:\w+\s\|\s)?(?P<model>[^,|]+?)(?:\s(?:text|audio|image))?,\s.*(?:input|output)"),
        quantity=("quantity",),
        quantity_unit=("quantity_unit",),
        account=("api_key_id", "project_id"),
        wanted="Export the costs, grouped by line item, not the usage, which has no costs.",
    ),
    Format(
        title="Anthropic costs, from the console",
        # An export since the summer of 2026 also has api_key_id and api_key_status. Times: usage_date_utc.
        sources=("https://support.claude.com/en/articles/9534590-cost-and-usage-reporting-in-the-claude-console",),
        time=("usage_date_utc",),
        cost=("cost_usd",),
        name=("model",),
        model=_pattern("^(?P<model>.+)$"),
        account=("api_key_id", "api_key"),
        wanted="Export Cost, not Usage, which has no costs.",
    ),
    Format(
        title="Anthropic cost report, from the API",
        # Cents as decimal text: "123.45" is $1.2345. Grouped by description, without which model is null.
        sources=("https://platform.claude.com/docs/en/api/admin/cost_report",),
        time=("starting_at",),
        cost=("amount",),
        currency=("currency",),
        name=("model",),
        model=_pattern("^(?P<model>.+)$"),
        account=("workspace_id",),
        dollars=Decimal("0.01"),
        wanted="Ask for the cost report with group_by[]=description.",
    ),
    Format(
        title="Azure cost details",
        # Of Enterprise Agreements (Date, CostInBillingCurrency), Microsoft Customer Agreements (the same in camel case) and
        # subscriptions that pay as they go (UsageDate, PreTaxCost, Currency in former versions). Dates: 08/31/2026.
        sources=(
            "https://learn.microsoft.com/azure/cost-management-billing/dataset-schema/cost-usage-details-ea",
            "https://learn.microsoft.com/azure/cost-management-billing/dataset-schema/cost-usage-details-mca",
        ),
        time=("date", "usagedatetime", "usagedate"),
        cost=("costinbillingcurrency", "cost", "pretaxcost"),
        currency=("billingcurrency", "billingcurrencycode", "currency"),
        name=("metername",),
        # "gpt 4o 1120 cached Inp glbl Tokens", "GPT 5 outpt Glbl 1M Tokens", "o4-mini 0416 Outp glbl Tokens"
        model=_pattern(rf"^(?P<model>.+?)(?:[\s-]+{_TOKENS})*[\s-]+(?:inpu?t?|outpu?t?|opt)\b"),
        kind=("chargetype",),
        kinds=frozenset({"usage"}),
        service=("metercategory", "consumedservice"),
        services=_pattern(r"foundry|cognitive|openai|azure\sai"),
        quantity=("quantity", "usagequantity"),
        quantity_unit=("unitofmeasure",),
        account=("resourceid", "instanceid", "subscriptionid"),
        is_month_first=True,
        final_days=2,
        wanted="Export cost and usage details (actual cost) as CSV.",
    ),
    Format(
        title="AWS Cost and Usage Report",
        # CUR 2.0 (line_item_usage_type) and legacy CUR (lineItem/UsageType). AWS Marketplace bills models of third parties: the
        # product's name has the model, its code is opaque. In CUR 2.0 product is a map, of which product_name is a part.
        sources=(
            "https://docs.aws.amazon.com/cur/latest/userguide/table-dictionary-cur2-line-item.html",
            "https://docs.aws.amazon.com/cur/latest/userguide/Lineitem-columns.html",
            "https://docs.aws.amazon.com/bedrock/latest/userguide/cost-mgmt-understanding-cur-data.html",
        ),
        time=("line_item_usage_start_date", "lineitem/usagestartdate"),
        cost=("line_item_unblended_cost", "lineitem/unblendedcost"),
        currency=("line_item_currency_code", "lineitem/currencycode"),
        name=(
            *("product_product_name", "product/productname", "product_servicename", "product/servicename", "product"),
            *("line_item_usage_type", "lineitem/usagetype"),
        ),
        # "Claude Opus 5.5 (Amazon Bedrock Edition)", "USE1-Claude4.6Opus-cache-read-input-token-count-cross-region-global",
        # "USW2-anthropic.claude-opus-4-8-mantle-input-tokens-global-standard"
        model=_pattern(
            r"""(?P<model>[^":]+?)\s\(Amazon\sBedrock\sEdition\)
            |^(?:[A-Z]{2,4}\d?-)?(?P<usage>.+?)(?:-(?:mantle|cache|read|write|text|image|input|output|\d+[mh]))+-token"""
        ),
        kind=("line_item_line_item_type", "lineitem/lineitemtype"),
        kinds=frozenset({"usage"}),
        service=(
            *("line_item_product_code", "lineitem/productcode", "product_product_name", "product/productname"),
            *("product_servicename", "product/servicename", "product"),
        ),
        services=_pattern("bedrock"),
        quantity=("line_item_usage_amount", "lineitem/usageamount"),
        quantity_unit=("pricing_unit", "pricing/unit"),
        account=("line_item_usage_account_id", "lineitem/usageaccountid"),
        final_days=2,
        wanted="Export CUR 2.0, or a legacy report with resources, as CSV.",
    ),
    Format(
        title="Google Cloud billing export",
        # BigQuery writes no nested columns as CSV: they come with dots, from the console, or by the names of a query.
        sources=("https://cloud.google.com/billing/docs/how-to/export-data-bigquery-tables/standard-usage",),
        time=("usage_start_time",),
        cost=("cost",),
        currency=("currency",),
        name=("sku.description", "sku_description"),
        # "Gemini 2.5 Flash GA Thinking Text Output - Predictions"; storage of caches is billed by the hour
        model=_pattern(rf"^(?!.*storage)(?P<model>.+?)(?:[\s:-]+{_TOKENS})*[\s:-]+(?:input|output)"),
        kind=("cost_type",),
        kinds=frozenset({"regular"}),
        service=("service.description", "service_description"),
        services=_pattern("vertex|gemini|generative|agent\\splatform"),
        quantity=("usage.amount", "usage_amount"),
        quantity_unit=("usage.unit", "usage_unit"),
        account=("project.id", "project_id"),
        final_days=2,
        wanted="Export the query of the documentation as CSV.",
    ),
    Format(
        title="OpenRouter activity",
        # A line for each request, whose id OpenRouter also sends in the header X-Generation-Id.
        sources=("https://openrouter.ai/docs/cookbook/administration/activity-export",),
        time=("created_at",),
        cost=("cost_total",),
        name=("model_permaslug",),
        model=_pattern("^(?P<model>.+)$"),
        account=("api_key_name",),
        request_id=("generation_id",),
        wanted="Export the activity as CSV, with each generation.",
    ),
)
