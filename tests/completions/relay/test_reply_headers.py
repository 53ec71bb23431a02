"""What a reply, or an error, says about the attempts at providers: who was asked, how often, and what was not sent on."""

import re

import pytest
from django.conf import settings

from completions.providers.anthropic import request as anthropic_request
from completions.providers.gemini import request as gemini_request
from completions.providers.ignored_fields import HONOURED, header_value
from completions.request.prompt import UNPAID_FIELDS
from tests.completions.routes import add, assert_attempts, change_provider
from tests.completions.rows import MESSAGES, ask, ask_streamed, assert_released, events
from tests.upstream import CLOSE, ROLE, refusal, stream, streamed, whole, words

STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
IGNORED = "x-gateway-ignored-fields"


# --- Failures -------------------------------------------------------------------------------------------------------


@STREAMED
def test_an_error_after_attempts_says_how_many_and_who_was_asked_last(api, large, upstream, spare, is_streamed):
    add(large, spare)
    upstream.will(refusal(500))
    spare.will(refusal(401))
    answer = ask(api, stream=is_streamed)
    assert (answer.status_code, answer["x-gateway-attempts"], answer["x-gateway-provider"]) == (502, "3", "scripted")
    assert "x-gateway-cost" not in answer
    assert answer["x-request-id"]
    assert_attempts(3)


@STREAMED
def test_a_request_that_the_provider_refused_says_who_did(api, large, upstream, is_streamed):
    upstream.will(refusal(400, "no such thing"))
    answer = ask(api, stream=is_streamed)
    assert (answer.status_code, answer["x-gateway-attempts"], answer["x-gateway-provider"]) == (400, "1", "scripted")


def test_a_charged_failure_says_what_it_cost(api, large, upstream, settings):
    """The reply is too large for the gateway, because of what the request asks for."""
    settings.UPSTREAM_REPLY_BYTES_MAX = 40  # 10 tokens
    upstream.will(whole())
    answer = ask(api, logprobs=True)
    assert (answer.status_code, answer["x-gateway-attempts"], answer["x-gateway-cost"]) == (502, "1", "0.000165")


def test_a_request_that_no_provider_was_asked_for_says_nothing(api, large, upstream):
    answer = ask(api, temperature=3)
    assert answer.status_code == 400
    assert not [name for name in answer.headers if name.startswith("x-gateway")]


# --- A provider that asks not to be tried again ---------------------------------------------------------------------


@STREAMED
@pytest.mark.parametrize("word", ["false", "False"])
@pytest.mark.parametrize(("status", "told"), [(429, 503), (500, 502), (503, 503), (529, 503)])
def test_a_provider_that_forbids_a_retry_is_asked_once(api, alice, large, upstream, status, told, word, is_streamed):
    upstream.will(refusal(status, x_should_retry=word), streamed() if is_streamed else whole())
    answer = ask(api, stream=is_streamed)
    assert (answer.status_code, answer["x-should-retry"], answer["x-gateway-attempts"]) == (told, "false", "1")
    assert len(upstream.requests) == 1
    assert_released(alice)


def test_another_provider_is_asked_all_the_same(api, large, upstream, spare):
    add(large, spare)
    upstream.will(refusal(429, x_should_retry="false"))
    answer = ask(api)
    assert (answer.status_code, answer["x-gateway-provider"], answer["x-gateway-attempts"]) == (200, "spare", "2")
    assert "x-should-retry" not in answer


def test_the_error_of_a_provider_that_may_be_tried_again_is_told_first(api, large, upstream, spare):
    add(large, spare)
    upstream.will(refusal(429, x_should_retry="false"))
    spare.will(refusal(500))
    answer = ask(api)
    assert (answer.status_code, answer["x-gateway-attempts"], "x-should-retry" in answer) == (502, "3", False)
    assert (len(upstream.requests), len(spare.requests)) == (1, 2)


def test_retries_go_on_where_the_provider_allows_them(api, large, upstream):
    upstream.will(refusal(500, x_should_retry="true"), whole())
    answer = ask(api)
    assert (answer.status_code, answer["x-gateway-attempts"]) == (200, "2")


# --- Fields that are not sent on ------------------------------------------------------------------------------------


@STREAMED
def test_a_reply_names_the_fields_that_were_not_sent(api, large, upstream, is_streamed):
    upstream.will(streamed() if is_streamed else whole())
    answer = ask(api, stream=is_streamed, service_tier="scale", strange=1, Temperature=1, prediction=None, temperature=1)
    assert answer.status_code == 200
    assert answer[IGNORED] == "service_tier, strange, Temperature"
    assert upstream.requests[0].body.keys().isdisjoint({"service_tier", "strange", "Temperature"})
    if is_streamed:
        assert "error" not in events(answer)[-2]


@STREAMED
def test_an_error_names_the_fields_that_were_not_sent(api, large, upstream, is_streamed):
    upstream.will(refusal(400))
    answer = ask(api, stream=is_streamed, service_tier="scale", web_search_options={})
    assert (answer.status_code, answer[IGNORED]) == (400, "service_tier, web_search_options")


def test_a_stream_that_breaks_off_named_them_at_its_start(api, large, upstream):
    upstream.will(stream(ROLE, words("Hello"), CLOSE))
    answer = ask_streamed(api, service_tier="scale")
    assert answer[IGNORED] == "service_tier"
    assert "error" in events(answer)[-1]


def test_a_reply_to_which_everything_was_sent_names_none(api, large, upstream):
    fields = {"temperature": 1, "user": "u", "seed": 1, "metadata": {"a": "b"}, "n": 1, "models": []}
    answer = ask(api, **fields, max_tokens=5)
    assert answer.status_code == 200
    assert IGNORED not in answer


def test_the_provider_that_answers_decides(api, large, upstream, spare):
    add(large, spare)
    large.routes.get(provider="spare").provider.__class__.objects.filter(slug="spare").update(kind="anthropic")
    upstream.will(refusal(401))
    spare.will(refusal(400))
    answer = ask(api, seed=1)
    assert (answer["x-gateway-provider"], answer[IGNORED]) == ("spare", "seed")


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
NAMED = [{"role": "user", "name": "Alice", "content": "hi", "reasoning_content": "hm"}]
TOOLS = [{"type": "function", "function": {"name": "f"}}]


@pytest.mark.parametrize(
    ("kind", "upstream_model", "fields", "ignored"),
    [
        (
            "anthropic",
            "claude-opus-4-5",
            {"temperature": 0.5, "stop": "x", "user": "u", "response_format": {"type": "text"}},
            None,
        ),
        ("anthropic", "claude-opus-4-5", {"seed": 1, "logit_bias": {}, "top_k": 5}, "seed, logit_bias, top_k"),
        ("anthropic", "claude-opus-4-5", {"frequency_penalty": 1, "store": True}, "frequency_penalty, store"),
        ("anthropic", "claude-opus-4-5", {"temperature": 0.5, "top_p": 0.5}, "top_p"),
        ("anthropic", "claude-opus-4-8", {"temperature": 0.5, "top_p": 0.5}, "temperature, top_p"),
        ("anthropic", "claude-opus-4-6", {"temperature": 0.5, "reasoning_effort": "low"}, "temperature"),
        ("anthropic", "claude-3-5-haiku", {"reasoning_effort": "low"}, "reasoning_effort"),
        ("anthropic", "claude-3-5-haiku", {"reasoning_effort": "none"}, None),
        ("anthropic", "claude-fable-5", {"reasoning_effort": "none"}, "reasoning_effort"),
        ("anthropic", "claude-opus-4-5", {"user": "u", "safety_identifier": "s"}, "user"),
        ("anthropic", "claude-opus-4-5", {"metadata": {"user_id": "u"}}, None),
        ("anthropic", "claude-opus-4-5", {"metadata": {"user_id": "u", "trace": "t"}}, "metadata"),
        ("anthropic", "claude-opus-4-5", {"messages": NAMED}, "messages.name, messages.reasoning_content"),
        ("anthropic", "claude-opus-4-5", {"tools": TOOLS, "parallel_tool_calls": False, "tool_choice": "auto"}, None),
        ("gemini", "gemini-2.0-flash", {"temperature": 1, "top_p": 1, "top_k": 5, "seed": 1, "frequency_penalty": 1}, None),
        ("gemini", "gemini-3-pro", {"temperature": 1, "seed": 1, "frequency_penalty": 1}, "frequency_penalty"),
        ("gemini", "gemini-3-pro", {"user": "u", "metadata": {"a": "b"}, "verbosity": "low"}, "user, metadata, verbosity"),
        ("gemini", "gemini-3-pro", {"tools": TOOLS, "parallel_tool_calls": True}, None),
        ("gemini", "gemini-3-pro", {"tools": TOOLS, "parallel_tool_calls": False}, "parallel_tool_calls"),
        ("gemini", "gemini-3-pro", {"messages": NAMED}, "messages.name, messages.reasoning_content"),
    ],
)
def test_a_field_that_another_format_has_no_place_for_is_named(api, large, upstream, kind, upstream_model, fields, ignored):
    large.function_calling = True
    large.save()
    change_provider(large, kind=kind)
    large.routes.update(upstream_model=upstream_model)
    upstream.will(refusal(400))
    answer = ask(api, **fields)
    assert (answer.status_code, len(upstream.requests)) == (400, 1), answer.content
    assert answer.get(IGNORED) == ignored


@pytest.mark.parametrize("kind", ["anthropic", "gemini"])
def test_calls_and_results_of_tools_are_not_named(api, large, upstream, kind):
    large.function_calling = True
    large.save()
    change_provider(large, kind=kind)
    upstream.will(refusal(400))
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "c", "content": "ok"}
    answer = ask(api, messages=[*MESSAGES, called, result], tools=TOOLS)
    assert (len(upstream.requests), IGNORED in answer) == (1, False)


@pytest.mark.parametrize(
    ("host", "fields", "ignored"),
    [
        ("api.openai.com", {"seed": 1, "store": True, "messages": [{**MESSAGES[0], "name": "Alice"}]}, None),
        ("api.openai.com", {"top_k": 5, "cache_control": {}}, "top_k, cache_control"),
        ("api.mistral.ai", {"seed": 1, "user": "u", "logit_bias": {}}, "user, logit_bias"),
        ("api.mistral.ai", {"messages": [{**MESSAGES[0], "name": "Alice"}]}, "messages.name"),
        ("api.groq.com", {"store": True, "metadata": {"a": "b"}}, "store, metadata"),
    ],
)
def test_a_field_that_a_host_would_refuse_is_named(host, fields, ignored):
    from completions.providers import ADAPTERS
    from tests.completions.offers import make_call, make_offer
    from tests.completions.providers.chat_requests import make_request

    messages = fields.get("messages", MESSAGES)
    others = {name: value for name, value in fields.items() if name != "messages"}
    call = make_call(make_request(*messages, **others), make_offer(base_url=f"https://{host}/v1"), 10)
    found = ADAPTERS["openai"].ignored_fields(call)
    assert (header_value(found) if found else None) == ignored


def test_the_echo_names_what_it_does_not_heed(api, echo_model):
    answer = ask(api, model="demo/echo", temperature=1, max_tokens=5, n=1, echo={"reply": "a"})
    assert (answer.status_code, answer[IGNORED]) == (200, "temperature")


def test_the_header_is_bounded_and_has_no_characters_of_the_callers_choice(api, large, upstream):
    hostile = {f"X{number}": 1 for number in range(900)}
    answer = ask(api, **hostile)
    assert answer[IGNORED] == ", ".join([*(f"X{number}" for number in range(20)), "..."])
    answer = ask(api, **{"É": 1, "A\r\nset-cookie: a=b": 1, "B, C": 1, "X" * 65: 1, "Ok": 1, "Z": None})
    assert answer[IGNORED] == "Ok, ..."
    many = {f"{number}": 1 for number in range(10_000)}
    large.routes.get().provider.__class__.objects.update(kind="gemini")
    upstream.will(refusal(400))
    answer = ask(api, messages=[{**MESSAGES[0], **many}])
    assert len(answer[IGNORED]) < 1_500
    assert answer[IGNORED].endswith("...")


@pytest.mark.parametrize(
    ("provider", "names"),
    [
        ("every provider", set(UNPAID_FIELDS - HONOURED)),
        ("Anthropic", anthropic_request._TRANSLATED_FIELDS - HONOURED - {"functions", "logprobs", "top_logprobs"}),
        ("Gemini", gemini_request._TRANSLATED_FIELDS - HONOURED - {"functions", "parallel_tool_calls"}),
    ],
)
def test_the_documentation_lists_the_fields(provider, names):
    page = (settings.BASE_DIR / "docs/api/completions.md").read_text()
    items = " ".join(page.partition("## Fields that are not sent")[2].partition("\n## ")[0].split()).split(" - **")[1:]
    fields = dict(item.split("**: ", 1) for item in items)
    listed = re.split(r"\. |; |: the hold", fields[provider])[0]
    assert set(re.findall(r"`([^`]+)`", listed)) == names
