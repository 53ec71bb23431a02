"""What providers report is charged, whatever they call it: a table of spellings, through every API, whole and in pieces."""

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completions.catalog import file as catalog_file
from completions.pricing.usage import Usage
from completions.providers import reported_usage
from completions.providers.reported_usage import GEMINI, HOSTS, MESSAGES, Report
from gateway_project import metrics
from tests import factories
from tests.cases import undone
from tests.completions.content_parts import IMAGE, PDF
from tests.completions.providers.anthropic import scripts as claude
from tests.completions.providers.gemini import scripts as gemini
from tests.completions.providers.openai.responses import scripts as responses
from tests.completions.rows import ask, ask_streamed, assert_charged, events, lost_nanos
from tests.ledger_audit import assert_ledger_is_consistent
from tests.upstream import DONE, FINISH, KEY_ENV, ROLE, chunk, reply, stream, usage, whole, words

INPUT, CACHED, OUTPUT = 3_000, 300, 15_000  # nanodollars a token
GROK, GOOGLE, OPENAI, KIMI = "api.x.ai", "googleapis.com", "api.openai.com", "api.moonshot.ai"


@dataclass(frozen=True)
class Case:
    """A usage object, and what is charged for it. ``host`` is one of the table, or "" for a server that it does not name."""

    id: str
    usage: Any
    prompt: int
    generated: int
    cached: int = 0
    host: str = ""
    contradicts: bool = False
    charged: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        nanos = (self.prompt - self.cached) * INPUT + self.cached * CACHED + self.generated * OUTPUT
        counts = {"prompt": self.prompt, "completion": self.generated, "cached": self.cached, "nanos": nanos}
        object.__setattr__(self, "charged", counts)


def counts(prompt: Any = 40, completion: Any = 7, total: Any = 47, **others: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total, **others}


def reasoned(tokens: Any) -> dict[str, Any]:
    return {"completion_tokens_details": {"reasoning_tokens": tokens}}


IN_DETAILS = {"prompt_tokens_details": {"cached_tokens": 16}}
CASES = [
    # --- Cached tokens: github.com/earendil-works/pi/pull/8119, github.com/promptfoo/promptfoo/pull/10831
    Case("cached in details", counts(**IN_DETAILS), 40, 7, 16),
    Case("cached at the top", counts(cached_tokens=16), 40, 7, 16),
    Case("cached at the top of Kimi", counts(cached_tokens=16), 40, 7, 16, host=KIMI),
    Case("cached in both places", counts(cached_tokens=16, **IN_DETAILS), 40, 7, 16),
    Case("cached once as zero", counts(cached_tokens=16, prompt_tokens_details={"cached_tokens": 0}), 40, 7, 16),
    Case("cached in null details", counts(cached_tokens=16, prompt_tokens_details=None), 40, 7, 16),
    Case("a hit alone", counts(prompt_cache_hit_tokens=16), 40, 7, 16),
    Case("a hit and a miss", counts(prompt_cache_hit_tokens=16, prompt_cache_miss_tokens=24), 40, 7, 16),
    Case(
        "a hit and a miss are the prompt",
        {"completion_tokens": 7, "prompt_cache_hit_tokens": 16, "prompt_cache_miss_tokens": 24},
        40,
        7,
        16,
    ),
    Case("a fraction and a text", counts("40", 7.0, "47", cached_tokens=16.0), 40, 7, 16),
    Case("cached is negative", counts(cached_tokens=-16), 40, 7),
    Case("cached is more than the prompt", counts(cached_tokens=41), 40, 7, 40, contradicts=True),
    Case("two numbers of cached", counts(cached_tokens=20, **IN_DETAILS), 40, 7, 16, contradicts=True),
    # --- Anthropic's names in OpenAI's format: LiteLLM counts them in the prompt, relays beside it
    Case("read from a cache, in the prompt", counts(cache_read_input_tokens=16, **IN_DETAILS), 40, 7, 16),
    Case("read from a cache, without a total", counts(total=None, cache_read_input_tokens=16), 40, 7, 16),
    Case("read from a cache, beside the prompt", counts(24, 7, 47, cache_read_input_tokens=16), 40, 7, 16),
    Case("read from a cache, no room in the prompt", counts(4, 7, None, cache_read_input_tokens=36), 40, 7, 36),
    Case("written to a cache, beside the prompt", counts(24, 7, 47, cache_creation_input_tokens=16), 40, 7),
    Case("all by Anthropic's names", {"input_tokens": 24, "output_tokens": 7, "cache_read_input_tokens": 16}, 40, 7, 16),
    Case("a relay that says both", counts(input_tokens=24, output_tokens=0), 40, 7, contradicts=True),
    # --- The names of Responses: input and output
    Case("input and output", {"input_tokens": 40, "output_tokens": 7}, 40, 7),
    Case(
        "input and output with details",
        {"input_tokens": 40, "output_tokens": 7, "total_tokens": 47, "input_tokens_details": {"cached_tokens": 16}},
        40,
        7,
        16,
    ),
    Case("zeros by other names", counts(input_tokens=0, output_tokens=0, input_tokens_details=None), 40, 7),
    # --- Reasoning: github.com/vercel/ai/pull/12425, discuss.ai.google.dev/t/127400
    Case("reasoning inside", counts(**reasoned(5)), 40, 7, host=OPENAI),
    Case("reasoning inside, of a server that nobody knows", counts(**reasoned(5)), 40, 7),
    Case("reasoning inside, without a total", counts(total=None, **reasoned(5)), 40, 7),
    Case("reasoning beside", counts(total=52, **reasoned(5)), 40, 12),
    Case("reasoning beside at xAI", counts(total=52, **reasoned(5)), 40, 12, host=GROK),
    Case("reasoning beside at xAI, without a total", counts(total=None, **reasoned(5)), 40, 12, host=GROK),
    Case("reasoning inside at xAI, says the total", counts(**reasoned(5)), 40, 7, host=GROK),
    Case("reasoning beside at OpenAI", counts(total=52, **reasoned(5)), 40, 12, host=OPENAI, contradicts=True),
    Case("reasoning beside and cached", counts(total=52, cached_tokens=16, **reasoned(5)), 40, 12, 16),
    Case("as much reasoning as is cached", counts(total=47, prompt=35, cached_tokens=5, **reasoned(5)), 35, 12, 5),
    Case("reasoning at the top", counts(total=52, reasoning_tokens=5), 40, 12),
    Case("thoughts in the total alone", counts(9, 3, 105), 9, 96, host=GOOGLE),
    Case("thoughts in the total alone, of an unknown server", counts(9, 3, 105), 9, 96, contradicts=True),
    Case("nothing but thoughts", counts(21, 0, 81, **reasoned(60)), 21, 60),
    Case("null details", counts(completion_tokens_details=None, prompt_tokens_details=None), 40, 7),
    Case("more reasoning than is generated", counts(total=None, **reasoned(12)), 40, 19),
    Case("more reasoning than the total has", counts(**reasoned(12)), 40, 19, contradicts=True),
    Case("more reasoning than is possible at OpenAI", counts(**reasoned(12)), 40, 7, host=OPENAI),
    # --- Sums
    Case("no total", {"prompt_tokens": 40, "completion_tokens": 7}, 40, 7),
    Case("a null total", counts(total=None), 40, 7),
    Case("a total of zero", counts(total=0), 40, 7),
    Case("a negative total", counts(total=-47), 40, 7),
    Case("too small a total", counts(total=46), 40, 7, contradicts=True),
    Case("a total smaller than the prompt", counts(total=7), 40, 7, contradicts=True),
    Case("no completion tokens", {"prompt_tokens": 40, "total_tokens": 47}, 40, 7),
    Case("null completion tokens", counts(completion=None), 40, 7),
    Case("no prompt tokens", {"completion_tokens": 7, "total_tokens": 47}, 40, 7),
    Case("a prompt of zero tokens", counts(prompt=0), 40, 7),
]


@contextmanager
def counted_contradictions(expected: int, provider: str = "scripted") -> Any:
    counter = metrics.usage_contradictions_total.labels(provider)
    before = counter._value.get()
    yield
    assert counter._value.get() - before == expected


@pytest.fixture
def play(upstream, monkeypatch):
    """Let the upstream count as a host does."""

    def play(host):
        reported_usage._of_host.cache_clear()
        monkeypatch.delitem(HOSTS, urlsplit(upstream.url).hostname, raising=False)
        if host:
            monkeypatch.setitem(HOSTS, urlsplit(upstream.url).hostname, HOSTS[host])

    yield play
    reported_usage._of_host.cache_clear()


def in_choice(given: Any) -> dict[str, Any]:
    return {"index": 0, "delta": {}, "finish_reason": "stop", "usage": given}


# Where a stream may have it: github.com/earendil-works/pi/issues/2017, github.com/vercel/ai/issues/1651
PLACES = {
    "after the finish reason": lambda given: [FINISH, usage(given)],
    "beside the finish reason": lambda given: [chunk(finish_reason="stop", usage=given)],
    "before the finish reason": lambda given: [usage(given), chunk(finish_reason="stop", usage=None)],
    "in the choice": lambda given: [chunk(choices=[in_choice(given)])],
    "in the choice, beside null": lambda given: [chunk(choices=[in_choice(given)], usage=None), usage(None)],
    "in Groq's own member": lambda given: [chunk(finish_reason="stop", x_groq={"id": "req_1", "usage": given})],
    "twice": lambda given: [chunk(choices=[in_choice(given)], usage=given), usage(given)],
}


def assert_told(told: dict[str, Any], case: Case) -> None:
    assert (told["prompt_tokens"], told["completion_tokens"]) == (case.prompt, case.generated)
    assert told["prompt_tokens_details"]["cached_tokens"] == case.cached
    assert told["cost"] == case.charged["nanos"] / 10**9


@pytest.mark.usefixtures("large")
def test_a_whole_reply_is_charged_what_its_usage_means(api, alice, upstream, play, subtests):
    for number, case in enumerate(CASES):
        with subtests.test(case.id), undone(), counted_contradictions(case.contradicts):
            alice.refresh_from_db()
            play(case.host)
            upstream.will(whole(usage=case.usage) if number % 3 else in_whole_choices(case.usage))
            assert_told(ask(api).json()["usage"], case)
            assert_charged(alice, "reported", **case.charged)


def in_whole_choices(*given: Any) -> Any:
    message = {"role": "assistant", "content": "Hello you"}
    choices = [{"index": index, "message": message, "finish_reason": "stop", "usage": each} for index, each in enumerate(given)]
    return reply(json.dumps({"id": "up-1", "choices": choices}).encode())


@pytest.mark.usefixtures("large")
def test_a_stream_is_charged_what_its_usage_means(api, alice, upstream, play, subtests):
    for place, case in zip(PLACES, CASES[1 :: len(CASES) // len(PLACES)], strict=False):
        with subtests.test(f"{case.id}, {place}"), undone(), counted_contradictions(case.contradicts):
            alice.refresh_from_db()
            play(case.host)
            upstream.will(stream(ROLE, words("Hello ", "you"), *PLACES[place](case.usage), DONE))
            *_, told, done = events(ask_streamed(api, stream_options={"include_usage": True}))
            assert done == "[DONE]"
            assert_told(told["usage"], case)
            assert_charged(alice, "reported", **case.charged)


# --- In pieces ---------------------------------------------------------------------------------------------------

# What the events of a stream report one after another -> prompt, generated, cached.
STREAMS = {
    "null in all but one": ([None, counts(), None], (40, 7, 0)),
    "running totals": ([counts(40, 1, 41), counts(40, 3, 43), counts()], (40, 7, 0)),
    "running totals with nulls at the end": ([counts(40, 1, 41), counts(), counts(None, None, None)], (40, 7, 0)),
    "zeros at the end": ([counts(cached_tokens=16), counts(0, 0, 0, cached_tokens=0)], (40, 7, 16)),
    "zeros at first": ([counts(0, 0, 0), counts(40, 0, 40), counts()], (40, 7, 0)),
    "a total that is not told again": ([counts(900, 0, 900), counts(total=None)], (40, 7, 0)),
    "a total that is behind": ([counts(40, 1, 41), counts(total=None)], (40, 7, 0)),
    "the cached tokens at first": ([counts(40, 0, 40, **IN_DETAILS), counts()], (40, 7, 16)),
    "the prompt at first, what was generated at the end": ([{"prompt_tokens": 40}, {"completion_tokens": 7}], (40, 7, 0)),
    "a total after its parts": ([counts(total=None), {"total_tokens": 52}, reasoned(5)], (40, 12, 0)),
    "impossible numbers at the end": ([counts(), counts(-1, "many", 1.5)], (40, 7, 0)),
    "impossible numbers at first": ([counts(-1, "many", 1.5), counts()], (40, 7, 0)),
    "no object at the end": ([counts(), [40, 7], "none", 5], (40, 7, 0)),
}


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(("given", "expected"), STREAMS.values(), ids=STREAMS.keys())
def test_the_last_number_that_is_news_is_charged(api, alice, upstream, given, expected):
    prompt, generated, cached = expected
    upstream.will(stream(ROLE, words("Hello you"), usage(given[0]), FINISH, *map(usage, given[1:]), DONE))
    events(ask_streamed(api))
    nanos = (prompt - cached) * INPUT + cached * CACHED + generated * OUTPUT
    assert_charged(alice, "reported", prompt=prompt, cached=cached, completion=generated, nanos=nanos)


def test_usage_of_each_choice_is_added_and_the_prompt_counts_once(api, alice, large, upstream, subtests):
    given = [counts(cached_tokens=16), counts(completion=9, total=49, cached_tokens=16)]
    choices = [{**in_choice(each), "index": index} for index, each in enumerate(given)]
    ended = [chunk(choices=[choice]) for choice in choices]
    scripts = {
        "whole": in_whole_choices(*given),
        "streamed": stream(ROLE, *ended, DONE),
        "of all in the end": stream(ROLE, *ended, usage(counts(completion=16, total=56, cached_tokens=16)), DONE),
    }
    for name, script in scripts.items():
        with subtests.test(name), undone():
            alice.refresh_from_db()
            upstream.will(script)
            assert ask(api, n=2, stream=name != "whole").getvalue()
            assert_charged(alice, "reported", prompt=40, cached=16, completion=16, nanos=24 * INPUT + 16 * CACHED + 16 * OUTPUT)


HUGE = 1_000_000_000


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    "given",
    [
        counts(HUGE, HUGE, HUGE),
        counts(9, 2, HUGE),
        counts(HUGE, HUGE, None, cache_read_input_tokens=HUGE, cache_creation_input_tokens=HUGE, **reasoned(HUGE)),
        {"input_tokens": HUGE, "output_tokens": HUGE, "cache_read_input_tokens": HUGE, "cache_creation_input_tokens": HUGE},
    ],
    ids=str,
)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_numbers_of_any_size_cost_no_more_than_the_hold(api, alice, upstream, given, is_stream):
    upstream.will(stream(ROLE, words("a"), FINISH, usage(given), DONE) if is_stream else whole(usage=given))
    assert ask(api, max_tokens=10, stream=is_stream).getvalue()
    hold = alice.holds.get()
    assert hold.settled_nanos == hold.amount_nanos
    before_nanos = alice.balance_nanos
    alice.refresh_from_db()
    assert (alice.balance_nanos, alice.held_nanos) == (before_nanos - hold.amount_nanos, 0)


# Reports above the hold, for max_tokens 10 and a model that reads 100,000 tokens: whether a request can cause them. What none
# can cause is the fault of the provider, and does not count against the account.
ABOVE_HOLD = {
    "more than is written and than is read": (counts(10**6, 10**6, None), {}, False),
    "more than is read": (counts(100_001, 2, None), {}, False),
    "more than is written": (counts(9, 10**6, None), {}, False),
    "more than is written in two choices": (counts(9, 8_193, None), {"n": 2}, False),
    "as much as is written in two choices": (counts(9, 8_192, None), {"n": 2}, True),
    "more than was asked for, where a provider does not heed it": (counts(9, 4_096, None), {}, True),
    "as much as is read": (counts(100_000, 2, None), {}, True),
    "an image beside what is read": (counts(100_500, 2, None), {"content": IMAGE}, True),
    "the pages of a file": (counts(10**6, 2, None), {"content": PDF}, True),
}


@pytest.mark.parametrize(("given", "fields", "is_possible"), ABOVE_HOLD.values(), ids=ABOVE_HOLD.keys())
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_what_no_request_can_cause_is_no_work_that_the_account_left_unpaid(
    api, alice, large, upstream, given, fields, is_possible, is_stream
):
    large.image_support, large.context_window = True, 100_000
    large.save()
    upstream.will(stream(ROLE, words("a"), FINISH, usage(given), DONE) if is_stream else whole(usage=given))
    content = [{"type": "text", "text": "Hi"}, *([fields["content"]] if "content" in fields else [])]
    asked = {"messages": [{"role": "user", "content": content}], "n": fields.get("n", 1)}
    loss = lost_nanos()
    with counted_contradictions(not is_possible):
        assert ask(api, max_tokens=10, stream=is_stream, **asked).getvalue()
    hold = alice.holds.get()
    alice.refresh_from_db()
    due_nanos = given["prompt_tokens"] * INPUT + given["completion_tokens"] * OUTPUT
    assert hold.settled_nanos == min(hold.amount_nanos, due_nanos)
    assert lost_nanos() - loss == due_nanos - hold.settled_nanos
    assert (alice.unpaid_until is not None) == (is_possible and due_nanos > hold.amount_nanos)
    assert_ledger_is_consistent()


# --- Callers of the other languages ------------------------------------------------------------------------------

CALLED = [case for case in CASES if case.id in ("cached at the top", "reasoning beside", "thoughts in the total alone")]


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
@pytest.mark.parametrize("case", CALLED, ids=lambda case: case.id)
def test_callers_of_messages_and_responses_pay_the_same(api, alice, upstream, play, case, path, is_stream):
    play(case.host)
    upstream.will(
        stream(ROLE, words("Hi"), *PLACES["in the choice"](case.usage), DONE) if is_stream else whole(usage=case.usage)
    )
    asked = {"messages": [{"role": "user", "content": "Say hello, please."}], "max_tokens": 100}
    asked = asked if "messages" in path else {"input": "Say hello, please."}
    told = api.post(path, {"model": "acme/large", "stream": is_stream, **asked}).getvalue().decode()
    assert f'"output_tokens":{case.generated}' in told
    assert_charged(alice, "reported", **case.charged)


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_a_provider_of_responses_is_read_alike(api, alice, large, upstream, is_stream):
    large.routes.update(api="responses")
    given = {"input_tokens": 40, "output_tokens": 7, "total_tokens": 52, "output_tokens_details": {"reasoning_tokens": 5}}
    script = responses.streamed if is_stream else responses.whole
    upstream.will(script(responses.message("Hello you"), usage={**given, "cached_tokens": 16}))
    assert ask(api, stream=is_stream).getvalue()
    assert_charged(alice, "reported", prompt=40, cached=16, completion=12, nanos=24 * INPUT + 16 * CACHED + 12 * OUTPUT)


EMBEDDED = {
    "a prompt and a total": ({"prompt_tokens": 7, "total_tokens": 7}, 7, False),
    "a total alone": ({"total_tokens": 7}, 7, False),
    "input tokens": ({"input_tokens": 7}, 7, False),
    "as text": ({"prompt_tokens": "7", "total_tokens": 7.0}, 7, False),
    "zeros": ({"prompt_tokens": 0, "total_tokens": 0}, 0, False),
    "a prompt of zero": ({"prompt_tokens": 0, "total_tokens": 7}, 7, False),
    "a larger total": ({"prompt_tokens": 5, "total_tokens": 7}, 7, True),
    "a smaller total": ({"prompt_tokens": 7, "total_tokens": 5}, 7, True),
    "a negative prompt": ({"prompt_tokens": -7, "total_tokens": 7}, 7, False),
    "nothing": ({}, None, False),
    "no object": ([7], None, False),
}


@pytest.mark.parametrize(("given", "tokens", "contradicts"), EMBEDDED.values(), ids=EMBEDDED.keys())
def test_the_tokens_of_inputs_are_read_alike(given, tokens, contradicts):
    report = Report()
    assert (report.tokens_of_inputs(given), report.is_contradictory) == (tokens, contradicts)


# --- The other formats -------------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(upstream, db):
    """Make the model of a provider that speaks another format."""

    def make(kind, upstream_model):
        base_url = upstream.url.removesuffix("/v1")
        provider = factories.make_provider("scripted", kind=kind, base_url=base_url, api_key_env=KEY_ENV)
        prices: Any = {"input": "3.00", "output": "15.00", "cached_input": "0.30", "upstream_model": upstream_model}
        return factories.make_model("acme/large", provider=provider, **prices)

    return make


def google(prompt: Any = 9, candidates: Any = 3, total: Any = 12, **others: Any) -> dict[str, Any]:
    given = {"promptTokenCount": prompt, "candidatesTokenCount": candidates, "totalTokenCount": total, **others}
    return {name: value for name, value in given.items() if value is not None}


THOUGHT = google(candidates=None, total=89, thoughtsTokenCount=80)
# What the events report one after another -> prompt, generated, cached. github.com/Wei-Shaw/sub2api/issues/554
GEMINIS = {
    "thoughts in each event": ([THOUGHT, google(total=92, thoughtsTokenCount=80)], (9, 83, 0)),
    "thoughts in the middle, and in the last total": ([THOUGHT, google(total=92)], (9, 83, 0)),
    "thoughts in the middle, and in no total": ([THOUGHT, google()], (9, 83, 0)),
    "thoughts in the middle, no total": ([THOUGHT, google(total=None)], (9, 83, 0)),
    "thoughts of which the total alone tells": ([google(total=92)], (9, 83, 0)),
    "thoughts in the candidates": ([google(candidates=83, total=92, thoughtsTokenCount=80)], (9, 83, 0)),
    "thoughts and zeros": ([THOUGHT, google(0, 3, 0, thoughtsTokenCount=0)], (9, 83, 0)),
    "running totals": ([google(9, 1, 10), google(9, 2, 11), google()], (9, 3, 0)),
    "the candidates in the middle": ([google(), google(candidates=None, total=None)], (9, 3, 0)),
    "results of tools in the middle": ([google(9, None, 14, toolUsePromptTokenCount=5), google(total=17)], (14, 3, 0)),
    "results of tools in no total": ([google(9, None, 14, toolUsePromptTokenCount=5), google()], (14, 3, 0)),
    "cached in the middle": ([google(9, None, 9, cachedContentTokenCount=4), google()], (9, 3, 4)),
    "null": ([google(), {**google(), "thoughtsTokenCount": None, "candidatesTokenCount": None}, None], (9, 3, 0)),
}


@pytest.mark.parametrize(("given", "expected"), GEMINIS.values(), ids=GEMINIS.keys())
def test_gemini_is_charged_the_last_number_of_each_count(api, alice, upstream, elsewhere, given, expected):
    elsewhere("gemini", "gemini-3.5-flash")
    *early, last = [gemini.text_response("a", usage=each) for each in given]
    last["candidates"][0]["finishReason"] = "STOP"
    upstream.will(gemini.streamed(*early, last))
    events(ask_streamed(api))
    prompt, generated, cached = expected
    nanos = (prompt - cached) * INPUT + cached * CACHED + generated * OUTPUT
    assert_charged(alice, "reported", prompt=prompt, completion=generated, cached=cached, nanos=nanos)


def test_a_whole_reply_of_gemini_is_charged_what_its_total_tells(api, alice, upstream, elsewhere):
    elsewhere("gemini", "gemini-3.5-flash")
    upstream.will(gemini.whole("Hi", usage=google(total=105)))
    assert ask(api).json()["usage"]["completion_tokens"] == 96
    assert_charged(alice, "reported", prompt=9, completion=96, nanos=9 * INPUT + 96 * OUTPUT)


BEGUN = {"input_tokens": 24, "cache_read_input_tokens": 16, "cache_creation_input_tokens": 0, "output_tokens": 1}
# The usage of the start, and of the deltas at the end. github.com/openlit/openlit/issues/1601, github.com/api7/aisix/pull/712
MESSAGE_STREAMS = {
    "totals in the end alone": (None, [{**BEGUN, "output_tokens": 7}]),
    "zeros at first": (dict.fromkeys(BEGUN, 0), [{**BEGUN, "output_tokens": 7}]),
    "what was generated alone": (BEGUN, [{"output_tokens": 7}]),
    "zeros": (BEGUN, [{**dict.fromkeys(BEGUN, 0), "output_tokens": 7}]),
    "nulls": (BEGUN, [{**dict.fromkeys(BEGUN), "output_tokens": 7}]),
    "zeros after the end": (BEGUN, [{"output_tokens": 7}, dict.fromkeys(BEGUN, 0)]),
    "nothing after the end": (BEGUN, [{"output_tokens": 7}, None]),
    "running totals": (BEGUN, [{"output_tokens": 3}, {"output_tokens": 7}]),
    "no numbers": (BEGUN, [None]),
    "zeros alone": (BEGUN, [dict.fromkeys(BEGUN, 0)]),
}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize(("begun", "ended"), MESSAGE_STREAMS.values(), ids=MESSAGE_STREAMS.keys())
def test_zeros_and_nulls_of_a_message_make_nothing_free(api, alice, upstream, elsewhere, begun, ended, path):
    elsewhere("anthropic", "claude-haiku-4-5")
    deltas = [claude.message_delta(usage=each) for each in ended]
    upstream.will(stream(claude.start(begun or {}), claude.text("x" * 28), *deltas, claude.STOP))  # 28 bytes are 7 tokens
    messages = [{"role": "user", "content": "Say hello, please."}]
    asked = {"model": "acme/large", "max_tokens": 100, "stream": True, "messages": messages}
    assert api.post(path, asked).getvalue()
    assert_charged(alice, "reported", prompt=40, cached=16, completion=7, nanos=24 * INPUT + 16 * CACHED + 7 * OUTPUT)


# --- Any mixture -------------------------------------------------------------------------------------------------

COUNTS = st.integers(0, 10**6)


@st.composite
def mixtures(draw):
    """Draw a reading, the members of a usage object in spellings that agree, and what they mean."""
    prompt, stated, thought = draw(st.integers(1, 10**6)), draw(COUNTS), draw(COUNTS)
    reading = draw(st.sampled_from([reported_usage.UNKNOWN, HOSTS[OPENAI], HOSTS[GROK]]))
    is_beside = reading is HOSTS[GROK] or reading is reported_usage.UNKNOWN and draw(st.booleans())
    thought = thought if is_beside else min(thought, stated)
    generated, cached = stated + thought * is_beside, draw(st.integers(0, prompt))
    numbers = [
        (prompt, ["prompt_tokens", "input_tokens"]),
        (stated, ["completion_tokens", "output_tokens"]),
        (cached, ["cached_tokens", "prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens"]),
        (thought, ["reasoning_tokens", "completion_tokens_details.reasoning_tokens"]),
        (prompt + generated, ["total_tokens"]),
    ]
    names = [(name, number) for number, all_names in numbers for name in draw(st.sets(st.sampled_from(all_names), min_size=1))]
    return reading, draw(st.permutations(names)), Usage(prompt, generated, cached, reasoning_tokens=thought)


def as_object(members: Any) -> dict[str, Any]:
    built: dict[str, Any] = {}
    for path, number in members:
        group, _, name = path.rpartition(".")
        (built.setdefault(group, {}) if group else built)[name] = number
    return built


NO_NEWS = st.sampled_from([None, {}, [], counts(0, 0, 0), counts(None, None, None), {"prompt_tokens_details": None}])


@given(mixtures(), st.lists(st.integers(0, 12), max_size=4), st.lists(NO_NEWS, min_size=5, max_size=5))
def test_any_mixture_of_spellings_whole_or_in_pieces_is_one_usage(mixture, cuts, no_news):
    reading, members, expected = mixture
    assert Report(reading).read({"usage": as_object(members)}) == expected
    report, last = Report(reading), None
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(members)], strict=True):
        last = report.read({"choices": [], "usage": as_object(members[start:end])}) or last
        last = report.read({"choices": [], "usage": no_news.pop() if no_news else None}) or last
    assert last == expected


# --- The table ---------------------------------------------------------------------------------------------------


def test_the_table_has_every_host_of_the_built_in_catalog():
    catalog = catalog_file.read([catalog_file.BUILT_IN])
    columns = [provider.columns for provider in catalog.providers.values() if provider.kind == "openai"]
    assert {urlsplit(each["base_url"]).hostname for each in columns} <= set(HOSTS)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://api.x.ai/v1", GROK),
        ("https://us-east-1.api.x.ai/v1", GROK),
        ("https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/openapi", GOOGLE),
        ("https://acme.services.ai.azure.com/openai/v1", "services.ai.azure.com"),
        ("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "aliyuncs.com"),
        ("https://notapi.x.ai.example/v1", None),
        ("http://127.0.0.1:8000/v1", None),
        ("not a url", None),
    ],
)
def test_a_host_is_known_by_its_domain(url, host):
    assert reported_usage._of_host(url) is (HOSTS[host] if host else reported_usage.UNKNOWN)


def test_each_format_has_its_own_reading(subtests):
    given = {"input_tokens": 24, "output_tokens": 7, "cache_read_input_tokens": 16, "total_tokens": 31}
    assert Report(MESSAGES).add(given) == Usage(40, 7, 16)
    assert Report(GEMINI).add(google(total=None, thoughtsTokenCount=2)) == Usage(9, 5, reasoning_tokens=2)
