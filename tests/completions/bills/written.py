"""Bills that tests write, in OpenRouter's or OpenAI's shape, and days of usage to compare them with."""

import io
from datetime import UTC, date, datetime, timedelta
from typing import Any

from billing.models import Account
from completions.bills import importing
from completions.bills.files import File
from completions.models import Bill, BillComparison, Completion, LanguageModel, Provider, ProviderDay, ProviderPrice
from tests import factories

HEAD = "start_time,amount_value,amount_currency,quantity,quantity_unit,line_item,project_id\n"
DAY = date(2026, 8, 4)


def line(cost: str, item: str = "echo, input", day: date = DAY, tokens: object = "", currency: str = "usd") -> str:
    seconds = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
    return f'{seconds},{cost},{currency},{tokens},{"tokens" if tokens else ""},"{item}",proj_a\n'


GOOGLE = "usage_start_time,cost,currency,usage.amount,usage.unit,sku.description,service.description,project.id,cost_type\n"


def by_hour(billed: dict[int, str], model: str = "Echo", day: date = DAY) -> Bill:
    """Import a bill that has hours, in Google's shape: what each costs, a dollar for a million tokens."""
    row = "{}T{:02}:00:00Z,{},USD,1000000,count,{} Text Input - Predictions,Vertex AI,proj_a,regular\n"
    return run((GOOGLE + "".join(row.format(day, *each, model) for each in billed.items())).encode())[0]


def bill(*lines: str, provider: str = "echo", name: str = "costs.csv") -> Bill:
    """Import lines as a bill of a provider."""
    return run((HEAD + "".join(lines)).encode(), provider=provider, name=name)[0]


def run(content: bytes, provider: str = "echo", name: str = "costs.csv") -> tuple[Bill, bool]:
    return importing.run(Provider.objects.get(pk=provider), [File(name, io.BytesIO(content))])


def price(model: LanguageModel, since: date = date(2026, 1, 1), input: str = "1", output: str = "1") -> ProviderPrice:
    """Write what the provider charges for a million tokens, in dollars."""
    nanos = {"input_nanos": int(float(input) * 10**9), "output_nanos": int(float(output) * 10**9)}
    rates = factories.rates_of(**nanos)
    return ProviderPrice.objects.create(model=model, provider_id=model.routes.get().provider_id, since=since, rates=rates)


def use(model: LanguageModel, day: date = DAY, prompt: int = 1_000_000, completion: int = 0, **columns: Any) -> None:
    """Write a day on which callers were charged two dollars."""
    zeros = dict.fromkeys(("cached_tokens", "cache_write_tokens", "cache_write_1h_tokens", "images", "web_searches"), 0)
    values = {"completions": 1, "charged_nanos": 2 * 10**9, **zeros, **columns}
    tokens = {"prompt_tokens": prompt, "completion_tokens": completion}
    ProviderDay.objects.create(day=day, provider_id=model.routes.get().provider_id, model=model, **tokens, **values)


def make(alice: Account, model: LanguageModel, hour: int = 12, **fields: Any) -> Completion:
    """Make a completion of DAY at an hour, or with ``provider`` at another provider. It ended a second later."""
    at = datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC) + timedelta(hours=hour)
    key = alice.keys.first() or factories.make_key(alice)[0]
    counts = {"counted_tokens": 1, "is_stream": False, "spending_day": DAY, "cost_nanos": 10**9, "held_nanos": 3 * 10**9}
    at = fields.pop("created_at", at)
    columns = {"provider_id": "echo", "settlement": "reported", "finished_at": at + timedelta(seconds=1), **counts, **fields}
    id = f"{Completion.least_id(at)}{Completion.objects.count():020x}"
    price = model.prices.get()
    return Completion.objects.create(id=id, account=alice, key=key, model=model, price=price, created_at=at, **columns)


def make_hours(alice: Account, model: LanguageModel, hours: list[int], **fields: Any) -> None:
    """Make a completion for a dollar in each hour, and the sums of their day."""
    price(model)
    for hour in hours:
        make(alice, model, hour=hour, prompt_tokens=10**6, completion_tokens=0, **fields)
    use(model, prompt=len(hours) * 10**6, completions=len(hours), charged_nanos=len(hours) * 10**9)


def only() -> BillComparison:
    return BillComparison.objects.get()
