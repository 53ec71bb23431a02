"""Length bands: a prompt above a threshold is charged whole at the rates of its band, and held for where it may reach one."""

from typing import Any

import pytest

from billing import money
from completions.models import Completion
from tests import factories
from tests.completions.inbound.embeddings.embedders import found, make_embedder
from tests.completions.pricing.searches import FOUND, SEARCH, SEARCHED
from tests.completions.providers.anthropic import scripts as claude
from tests.completions.rows import ask, assert_charged
from tests.ledger_audit import assert_ledger_is_consistent
from tests.pages.conftest import owner  # noqa: F401  a fixture
from tests.upstream import DONE, FINISH, KEY_ENV, ROLE, Script, event, stream, whole, words

ABOVE = 1_000
# Nanodollars a token, of input, cached input and output, by service tier and threshold. Priority has no band of its own.
RATES = {
    ("", 0): (3_000, 300, 15_000),
    ("", ABOVE): (6_000, 600, 22_500),
    ("flex", 0): (1_500, 150, 7_500),
    ("flex", ABOVE): (2_500, 250, 9_000),
    ("priority", 0): (5_000, 500, 20_000),
}
SHORT, LONG = "Hello", "x" * 2 * ABOVE  # of the long one, the bound reaches the band, and the likely tokens do not
MAX_TOKENS = 100


def cost(place: tuple[str, int], prompt: int, cached: int, completion: int) -> int:
    input_nanos, cached_nanos, output_nanos = RATES[place]
    return (prompt - cached) * input_nanos + cached * cached_nanos + completion * output_nanos


def used(prompt: int) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 100}}


def replied(prompt: int, *, is_stream: bool = False, **fields: Any) -> Script:
    if not is_stream:
        return whole(usage=used(prompt))
    return stream(ROLE, words("Hi"), FINISH, event({"choices": [], "usage": used(prompt), **fields}), DONE)


def messages(content: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": content}]


def quote(api: Any, content: str, **fields: Any) -> Any:
    asked = {"model": "acme/large", "messages": messages(content), "max_tokens": MAX_TOKENS, **fields}
    return api.post("/v1/quote", asked).json()


def set_rates(model: Any, **more: int) -> None:
    named = {
        f"{f'{tier}_' if tier else ''}{meter}{f'_above_{above}' if above else ''}_nanos": nanos * money.TOKENS_PER_PRICE
        for (tier, above), rates in RATES.items()
        for meter, nanos in zip(("input", "cached_input", "output"), rates, strict=True)
    }
    factories.change_prices(model.prices, **named, **more)


@pytest.fixture
def banded(large: Any) -> Any:
    """The model with another price for long prompts."""
    set_rates(large)
    return large


# --- What is charged --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "above"), [(ABOVE - 1, 0), (ABOVE, 0), (ABOVE + 1, ABOVE)], ids=["below", "at the threshold", "above"]
)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_the_reported_prompt_decides(api, alice, banded, upstream, is_stream, prompt, above):
    upstream.will(replied(prompt, is_stream=is_stream))
    assert ask(api, messages=messages(LONG), stream=is_stream).getvalue()
    assert_charged(alice, "reported", prompt=prompt, completion=2, cached=100, nanos=cost(("", above), prompt, 100, 2))


@pytest.mark.parametrize(
    ("tier", "place"), [("flex", ("flex", ABOVE)), ("priority", ("priority", 0))], ids=["with a band", "without one"]
)
def test_a_tier_is_charged_in_its_own_band(api, alice, banded, upstream, tier, place):
    upstream.will(replied(ABOVE + 1))
    ask(api, messages=messages(LONG), service_tier=tier)
    assert_charged(alice, "reported", prompt=ABOVE + 1, completion=2, cached=100, nanos=cost(place, ABOVE + 1, 100, 2))


def test_an_estimate_is_charged_in_the_band_of_the_likely_prompt(api, alice, banded, upstream):
    upstream.will(whole(usage=None))
    ask(api, messages=messages("x" * 8 * ABOVE))
    assert_charged(alice, "estimated", prompt=2 * ABOVE, completion=3, nanos=cost(("", ABOVE), 2 * ABOVE, 0, 3), cached=0)


def test_a_search_costs_the_same_in_a_band(api, alice, upstream, db):
    provider = factories.make_provider("c", kind="anthropic", base_url=upstream.url.removesuffix("/v1"), api_key_env=KEY_ENV)
    model = factories.make_model("acme/large", provider=provider, function_calling=True, upstream_model="claude-haiku-4-5")
    set_rates(model, web_search_nanos=10_000_000)
    usage = {"input_tokens": 901, "cache_read_input_tokens": 100, "output_tokens": 2}
    blocks = SEARCHED, FOUND, claude.text_block("Hi")
    upstream.will(claude.whole(*blocks, usage={**usage, "server_tool_use": {"web_search_requests": 1}}))
    asked = {"model": "acme/large", "max_tokens": 10, "messages": messages(SHORT), "tools": [SEARCH]}
    assert api.post("/v1/messages", asked).status_code == 200
    nanos = cost(("", ABOVE), ABOVE + 1, 100, 2) + 10_000_000
    assert_charged(alice, "reported", prompt=ABOVE + 1, completion=2, cached=100, nanos=nanos)


def test_embeddings_of_many_tokens_are_charged_in_the_band(api, alice, upstream, db):
    model = make_embedder("scripted", "openai", upstream.url)
    factories.change_prices(model.prices, **{f"input_above_{ABOVE}_nanos": 40_000_000, f"output_above_{ABOVE}_nanos": 0})
    upstream.will(found([0.5], usage={"prompt_tokens": ABOVE + 1, "total_tokens": ABOVE + 1}))
    assert api.post("/v1/embeddings", {"model": "acme/embed", "input": LONG}).status_code == 200
    assert_charged(alice, "reported", prompt=ABOVE + 1, completion=0, nanos=(ABOVE + 1) * 40, model="acme/embed")


# --- What is held and quoted ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "place"), [(SHORT, ("", 0)), (LONG, ("", ABOVE))], ids=["that cannot reach the band", "that may reach it"]
)
def test_the_hold_takes_the_dearest_band_that_the_prompt_may_reach(api, alice, banded, upstream, content, place):
    quoted = quote(api, content, service_tier="default")
    upstream.will(replied(9 if content == SHORT else ABOVE))
    ask(api, messages=messages(content), service_tier="default", max_tokens=MAX_TOKENS)
    input_nanos, _, output_nanos = RATES[place]
    held_nanos = alice.holds.get().amount_nanos
    assert (
        held_nanos == quoted["prompt_tokens_max"] * input_nanos + MAX_TOKENS * output_nanos == round(quoted["max_cost"] * 10**9)
    )
    assert (quoted["prompt_tokens_max"] > ABOVE) == (place[1] > 0)
    assert_ledger_is_consistent()


def test_a_report_above_what_the_prompt_can_have_is_charged_the_hold(api, alice, banded, upstream):
    upstream.will(replied(ABOVE + 1))
    ask(api, messages=messages(SHORT), max_tokens=MAX_TOKENS)
    done, hold = Completion.objects.get(), alice.holds.get()
    assert done.cost_nanos == hold.amount_nanos < cost(("", ABOVE), ABOVE + 1, 100, 2)
    assert_ledger_is_consistent()


@pytest.mark.parametrize(
    ("content", "tier", "held", "likely"),
    [
        (SHORT, None, ("0.000005", "0.00002"), ("default", 0, "0.000003", "0.000015")),
        (LONG, None, ("0.000006", "0.0000225"), ("default", 0, "0.000003", "0.000015")),
        ("x" * 8 * ABOVE, None, ("0.000006", "0.0000225"), ("default", ABOVE, "0.000006", "0.0000225")),
        (SHORT, "default", ("0.000003", "0.000015"), ("default", 0, "0.000003", "0.000015")),
        (SHORT, "flex", ("0.000003", "0.000015"), ("flex", 0, "0.0000015", "0.0000075")),
        ("x" * 8 * ABOVE, "flex", ("0.000006", "0.0000225"), ("flex", ABOVE, "0.0000025", "0.000009")),
    ],
    ids=["short", "long", "very long", "short at the standard tier", "short at flex", "very long at flex"],
)
def test_a_quote_says_what_is_held_for_and_what_is_likely(api, banded, content, tier, held, likely):
    quoted = quote(api, content, service_tier=tier)
    assert quoted["rates"] == {"prompt": held[0], "completion": held[1]}
    name, above, prompt, completion = likely
    tokens = -(-len(content) // 4)
    input_nanos, _, output_nanos = RATES["" if name == "default" else name, above]
    told = quoted["likely"]
    assert round(told.pop("cost") * 10**9) == tokens * input_nanos + MAX_TOKENS * output_nanos
    assert told == {
        "service_tier": name,
        "prompt_tokens": tokens,
        "above": above,
        "prompt": prompt,
        "completion": completion,
    }


def test_a_quote_of_a_price_without_bands_and_tiers_has_one_set_of_rates(api, large):
    quoted = quote(api, LONG)
    assert (quoted["rates"], quoted["likely"]) == ({"prompt": "0.000003", "completion": "0.000015"}, None)


# --- What is shown ----------------------------------------------------------------------------------------------------


def test_the_page_of_a_request_explains_its_band(api, alice, banded, upstream, owner):  # noqa: F811
    upstream.will(replied(ABOVE + 1))
    ask(api, messages=messages(LONG))
    page = owner.get(f"/dashboard/requests/{Completion.objects.get().pk}/")
    charge = page.context["charge"]
    assert [(part.kind, part.number, part.price_nanos // money.TOKENS_PER_PRICE) for part in charge.parts] == [
        ("input tokens, prompt above 1,000", 901, 6_000),
        ("cached input tokens, prompt above 1,000", 100, 600),
        ("output tokens, prompt above 1,000", 2, 22_500),
    ]
    total = sum(part.unrounded for part in charge.parts) // money.TOKENS_PER_PRICE
    assert total == charge.computed_nanos == charge.cost_nanos == cost(("", ABOVE), ABOVE + 1, 100, 2)
    assert "prompt above 1,000" in page.content.decode()
