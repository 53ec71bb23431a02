"""Bills that tests write, in OpenRouter's or OpenAI's shape, and days of usage to compare them with."""

import io
from datetime import UTC, date, datetime
from typing import Any

from completions.bills import importing
from completions.bills.files import File
from completions.models import Bill, BillComparison, LanguageModel, Provider, ProviderDay, ProviderPrice
from tests import factories

HEAD = "start_time,amount_value,amount_currency,quantity,quantity_unit,line_item,project_id\n"
DAY = date(2026, 8, 4)


def line(cost: str, item: str = "echo, input", day: date = DAY, tokens: object = "", currency: str = "usd") -> str:
    seconds = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
    return f'{seconds},{cost},{currency},{tokens},{"tokens" if tokens else ""},"{item}",proj_a\n'


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


def only() -> BillComparison:
    return BillComparison.objects.get()
