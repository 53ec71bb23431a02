"""The parameters of a chat completion: passed on, or withheld from upstreams that refuse them. What is refused: test_schema."""

import json
import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from billing.models import Account
from completions.models import Completion
from completions.providers import ignored_fields
from completions.providers.ignored_fields import HONOURED
from completions.providers.openai import request as openai_request
from completions.providers.openai.request import QUIRKS
from completions.request import schema
from completions.request.prompt import UNPAID_FIELDS
from tests import factories
from tests.cases import undone
from tests.chat import assert_error, prompt_bytes
from tests.completions.offers import make_call, make_offer
from tests.completions.routes import change_provider
from tests.completions.rows import MESSAGES, PROMPT_ESTIMATE, ask, ask_streamed, assert_charged, events
from tests.conftest import client_for
from tests.factories import make_key
from tests.upstream import CLOSE, DONE, FINISH, ROLE, USAGE, chunk, reply, stream, streamed, usage, whole, words

FIND = {"type": "function", "function": {"name": "find", "description": "Finds.", "parameters": {"type": "object"}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": {"type": "object"}}}


@pytest.fixture
def api(api, large):
    """A client, for a model that calls functions."""
    large.function_calling = True
    large.save()
    return api


@pytest.fixture
def played_as(upstream, monkeypatch):
    """Treat the scripted upstream as this known host, with its quirks."""

    def play(host):
        monkeypatch.setitem(QUIRKS, urlsplit(upstream.url).hostname, QUIRKS[host])

    return play


# --- Accepted ----------------------------------------------------------------------------------------------------

VALID: list[dict[str, Any]] = [
    {"frequency_penalty": -2, "presence_penalty": 2},
    {"functions": [{"name": "find"}], "function_call": "auto"},
    {"functions": [{"name": "find", "parameters": {}}], "function_call": {"name": "find"}},
    {"logit_bias": {"50256": -100, "7": 99.5}},
    {"logit_bias": {}},
    {"logprobs": True, "top_logprobs": 20},
    {"logprobs": True},
    {"logprobs": False},
    {"metadata": {f"{place:064}": "x" * 512 for place in range(16)}},
    {"modalities": ["text"]},
    {"moderation": {"model": "auto", "policy": {"input": {"mode": "block"}, "output": None}}},
    {"n": 16},
    {"prompt_cache_key": "k", "prompt_cache_options": {"mode": "explicit", "ttl": "30m"}, "prompt_cache_retention": "24h"},
    *({"reasoning_effort": effort} for effort in ("none", "minimal", "low", "medium", "high", "xhigh", "max")),
    {"response_format": {"type": "text"}},
    {"response_format": {"type": "json_object"}},
    {"response_format": SCHEMA},
    {"safety_identifier": "s", "user": "u"},
    {"seed": 2**63 - 1},
    {"seed": -(2**63)},
    {"stop": "\n"},
    {"stop": ["a", "b", "c", "d"]},
    {"store": False},
    {"temperature": 2, "top_p": 0},
    {"tools": [FIND], "parallel_tool_calls": False},
    *({"tools": [FIND], "tool_choice": choice} for choice in ("none", "auto", "required")),
    {"tools": [FIND], "tool_choice": {"type": "function", "function": {"name": "find"}}},
    {"tools": [FIND], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
    {"tools": [{"type": "custom", "custom": {"name": "sql"}}]},
    {"tools": [{**FIND, "function": {"name": "n" * 128}}] * 128},
    {"verbosity": "low"},
]


PASSED_ON = {"model": "large-2026", "messages": MESSAGES, "stream": False, "max_tokens": 4096}


def sent(**fields: Any) -> dict[str, Any]:
    """Return the body that an upstream without quirks is sent of a request with these fields."""
    request = schema.parse({"model": "acme/large", "messages": MESSAGES, **fields})
    return openai_request.body(make_call(request, make_offer(upstream_model="large-2026"), 4096), stream=request.stream)


@pytest.mark.parametrize("fields", VALID, ids=lambda fields: json.dumps(fields)[:60])
def test_parameter_is_passed_on_unchanged(fields):
    assert sent(**fields) == {**PASSED_ON, **fields}


def merged(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a few bodies that have every field of the cases with every one of its values."""
    bodies: list[dict[str, Any]] = []
    for fields in cases:
        body = next((body for body in bodies if body.keys().isdisjoint(fields)), None)
        if body is None:
            bodies.append(dict(fields))
        else:
            body.update(fields)
    return bodies


def test_parameters_reach_the_upstream_over_http_and_are_charged_by_usage_alone(api, alice, upstream, subtests):
    for fields in merged(VALID):
        with subtests.test(", ".join(fields)), undone():
            account, already = Account.objects.get(pk=alice.pk), len(upstream.requests)
            assert ask(api, **fields).status_code == 200
            [asked] = upstream.requests[already:]
            assert asked.body == {**PASSED_ON, **fields}
            assert_charged(account, "reported", prompt=9, completion=2, nanos=57_000)


def test_null_parameters_are_not_passed_on(api, upstream):
    names = {name for fields in VALID for name in fields} | {"audio", "models", "stream_options"}
    assert ask(api, **dict.fromkeys(names)).status_code == 200
    assert set(upstream.requests[0].body) == {"model", "messages", "stream", "max_tokens"}


UNPAID: dict[str, dict[str, Any]] = {
    "another token limit": {"max_new_tokens": 9, "max_output_tokens": 9, "n_predict": 9, "num_predict": 9, "options": {}},
    "hidden choices": {"best_of": 9, "prediction": {"type": "content", "content": "x" * 99}},
    "another model": {"models": ["acme/large"], "route": "fallback", "provider": {}, "preset": "p", "fallbacks": ["x"]},
    "a more expensive service": {"service_tier": "scale", "speed": "fast", "inference_geo": "us"},
    "a search": {
        "web_search_options": {},
        "plugins": [{"id": "web"}],
        "search_parameters": {"mode": "on"},
        "enable_search": True,
        "search_settings": {},
        "compound_custom": {},
        "mcp_servers": [],
    },
    "an echo script": {"echo": {"reply": "x"}},
    "names in another case": {
        "MODEL": "dear",
        "Max_Tokens": 9,
        "max_to\u212aens": 9,
        "\u017ftream": True,
        "N": 9,
        "Best_Of": 9,
    },
}


@pytest.mark.parametrize("fields", UNPAID.values(), ids=UNPAID)
def test_unpaid_fields_are_not_passed_on(fields):
    assert sent(**fields) == PASSED_ON


def test_unpaid_fields_reach_no_upstream_over_http(api, upstream):
    assert ask(api, **{name: value for fields in UNPAID.values() for name, value in fields.items()}).status_code == 200
    [asked] = upstream.requests
    assert asked.body == PASSED_ON


# --- Upstreams that refuse unknown fields ------------------------------------------------------------------------

EVERYTHING = {
    "cache_control": {"type": "ephemeral"},
    "chat_template_kwargs": {},
    "disable_tool_validation": True,
    "frequency_penalty": 1,
    "function_call": "auto",
    "functions": [{"name": "find"}],
    "include_reasoning": True,
    "logit_bias": {"7": 1},
    "logprobs": True,
    "metadata": {"k": "v"},
    "min_p": 0.1,
    "modalities": ["text"],
    "moderation": {},
    "n": 1,
    "parallel_tool_calls": True,
    "presence_penalty": 1,
    "prompt_cache_key": "k",
    "prompt_cache_options": {},
    "prompt_cache_retention": "24h",
    "prompt_mode": "reasoning",
    "reasoning": {},
    "reasoning_effort": "high",
    "reasoning_format": "parsed",
    "repetition_penalty": 1.1,
    "response_format": SCHEMA,
    "safe_prompt": True,
    "safety_identifier": "s",
    "seed": 7,
    "session_id": "s",
    "stop": ["x"],
    "store": True,
    "temperature": 1,
    "tool_choice": "auto",
    "tools": [FIND],
    "top_a": 1,
    "top_k": 5,
    "top_logprobs": 2,
    "top_p": 1,
    "user": "u",
    "verbosity": "low",
}
COMMON = {
    "frequency_penalty",
    "messages",
    "model",
    "n",
    "parallel_tool_calls",
    "presence_penalty",
    "reasoning_effort",
    "response_format",
    "stop",
    "stream",
    "temperature",
    "tool_choice",
    "tools",
    "top_p",
}
ACCEPTED = {
    "api.openai.com": COMMON
    | {
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "metadata",
        "modalities",
        "moderation",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "seed",
        "store",
        "top_logprobs",
        "user",
        "verbosity",
    },
    "api.mistral.ai": COMMON | {"max_tokens", "metadata", "prompt_cache_key", "prompt_mode", "random_seed", "safe_prompt"},
    "api.groq.com": COMMON
    | {
        "disable_tool_validation",
        "function_call",
        "functions",
        "include_reasoning",
        "logit_bias",
        "logprobs",
        "max_tokens",
        "reasoning_format",
        "seed",
        "top_logprobs",
        "user",
    },
}


@pytest.mark.parametrize("host", ACCEPTED)
def test_strict_upstream_receives_only_accepted_fields(api, upstream, played_as, host):
    played_as(host)
    assert ask(api, **EVERYTHING).status_code == 200
    asked = upstream.requests[0].body
    assert set(asked) == ACCEPTED[host]
    shared = {name: value for name, value in EVERYTHING.items() if name in asked}
    assert shared.items() <= asked.items()


def test_openai_is_not_sent_metadata_of_what_it_does_not_store(api, upstream, played_as):
    """It refuses that with 400. Claude Code sends metadata with every request."""
    played_as("api.openai.com")
    for store in (None, False):
        reply = ask(api, metadata={"user_id": "u"}, store=store)
        assert (reply.status_code, reply.headers["x-gateway-ignored-fields"]) == (200, "metadata")
        assert "metadata" not in upstream.requests[-1].body


OPENAIS_OWN: dict[str, Any] = {name: value for name, value in EVERYTHING.items() if name in ACCEPTED["api.openai.com"]}
OF_NO_REFERENCE: dict[str, Any] = {
    "invented": 1,
    "priority": "high",
    "search": True,
    "extra_body": {"a": [None]},
    "safety_model": "m",
}
OF_OTHERS: dict[str, dict[str, Any]] = {
    "api.meta.ai": {"top_k": 5, "repetition_penalty": 1.1},
    "api.moonshot.ai": {"thinking": {"type": "enabled"}},
    "api.z.ai": {"thinking": {"type": "enabled"}, "do_sample": True, "request_id": "r", "tool_stream": True, "user_id": "u"},
    "api.together.ai": {
        **{"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1},
        **{"reasoning": {"enabled": True}, "chat_template_kwargs": {"é": [None]}},
    },
}


def test_an_upstream_receives_the_fields_of_openais_reference_and_no_others(api, upstream):
    everything = {**EVERYTHING, **OF_NO_REFERENCE, **{name: 1 for fields in OF_OTHERS.values() for name in fields}}
    del everything["reasoning"]  # it is translated
    reply = ask(api, **everything)
    assert reply.status_code == 200
    asked = upstream.requests[0].body
    assert OPENAIS_OWN.items() <= asked.items()
    assert asked.keys() - OPENAIS_OWN.keys() <= {"messages", "model", "stream", "max_tokens"}
    unsent = [name for name in everything if name not in asked and everything[name] is not None]
    assert reply["x-gateway-ignored-fields"] == ignored_fields.header_value(unsent)


@pytest.mark.parametrize("host", OF_OTHERS)
def test_a_host_of_the_built_in_catalog_receives_what_its_reference_has_and_no_more(api, large, upstream, played_as, host):
    played_as(host)
    change_provider(large, passes_unknown_fields=True)  # it is not the operator's own, whatever the row says
    reply = ask(api, **OPENAIS_OWN, **OF_OTHERS[host], **OF_NO_REFERENCE)
    assert reply.status_code == 200
    asked = upstream.requests[0].body
    assert (OPENAIS_OWN | OF_OTHERS[host]).items() <= asked.items()
    assert asked.keys().isdisjoint(OF_NO_REFERENCE)
    assert reply["x-gateway-ignored-fields"] == ", ".join(OF_NO_REFERENCE)


def test_a_server_of_the_operators_own_receives_every_field(api, large, upstream):
    change_provider(large, passes_unknown_fields=True)
    reply = ask(api, **EVERYTHING, **OF_NO_REFERENCE)
    assert reply.status_code == 200
    assert (EVERYTHING | OF_NO_REFERENCE).items() <= upstream.requests[0].body.items()
    assert "x-gateway-ignored-fields" not in reply


CHECKED = {"prediction": {"type": "content", "content": "x"}, "service_tier": "scale", "web_search_options": {}}


def test_no_server_receives_a_field_that_the_hold_does_not_pay_for(api, large, upstream):
    change_provider(large, passes_unknown_fields=True)
    names = sorted(UNPAID_FIELDS - HONOURED)
    for some in (names[:20], names[20:]):  # the header names so many at most
        reply = ask(api, **{name: CHECKED.get(name, 1) for name in some})
        assert (reply.status_code, reply["x-gateway-ignored-fields"]) == (200, ", ".join(some))
        assert upstream.requests[-1].body.keys().isdisjoint(some)
    assert len(upstream.requests) == 2


def test_mistral_receives_random_seed(api, upstream, played_as):
    played_as("api.mistral.ai")
    ask(api, seed=7)
    assert upstream.requests[0].body["random_seed"] == 7


@pytest.mark.parametrize(
    ("host", "options"),
    [
        ("api.openai.com", {"include_usage": True, "include_obfuscation": False}),
        ("api.mistral.ai", None),
        ("api.groq.com", {"include_usage": True, "include_obfuscation": True}),
    ],
)
def test_stream_options_are_those_that_the_upstream_accepts(api, upstream, played_as, host, options):
    played_as(host)
    upstream.will(streamed())
    events(ask_streamed(api, stream_options={"include_usage": False, "include_obfuscation": True}))
    assert upstream.requests[0].body.get("stream_options") == options


CALL = {"id": "call00001", "type": "function", "function": {"name": "find", "arguments": "{}"}}
# As clients send back replies of other makers, or with every field that an SDK writes out.
CONVERSATION: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief.", "name": "rules"},
    {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}], "name": "Ann"},
    {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "reasoning_content": "Hm.",
        "tool_calls": [{**CALL, "extra_content": {"google": {"thought_signature": "x"}}}],
    },
    {"role": "tool", "tool_call_id": "call00001", "content": "one", "name": "find"},
]
ACCEPTED_MESSAGES: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call00001", "content": "one"},
]


def as_system(messages):
    """Return messages that begin with a developer's as other makers than OpenAI get them."""
    return [{**messages[0], "role": "system"}, *messages[1:]]


def named(messages, *places):
    for place in places:
        messages = [*messages[:place], {**messages[place], "name": CONVERSATION[place]["name"]}, *messages[place + 1 :]]
    return messages


@pytest.mark.parametrize(
    ("host", "messages"),
    [
        ("api.openai.com", named(ACCEPTED_MESSAGES, 0, 1, 3)),
        ("api.mistral.ai", as_system(ACCEPTED_MESSAGES)),
        ("api.groq.com", as_system(ACCEPTED_MESSAGES)),
    ],
    ids=["openai", "mistral", "groq"],
)
def test_strict_upstream_receives_only_accepted_message_fields(api, upstream, played_as, host, messages):
    played_as(host)
    tools = [{**FIND, "cache_control": {"type": "ephemeral"}}]
    assert ask(api, messages=CONVERSATION, tools=tools).status_code == 200
    assert upstream.requests[0].body["messages"] == messages
    assert upstream.requests[0].body["tools"] == [FIND]


LONG = "fc_" + "0" * 50
# A language -> a conversation in which two tools were called, by ids of another maker.
CALLED: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {
            "messages": [
                *MESSAGES,
                {"role": "assistant", "content": None, "tool_calls": [{**CALL, "id": "toolu_1"}, {**CALL, "id": LONG}]},
                {"role": "tool", "tool_call_id": "toolu_1", "content": "one"},
                {"role": "tool", "tool_call_id": LONG, "content": "two"},
            ]
        },
    ),
    "messages": (
        "/v1/messages",
        {
            "max_tokens": 100,
            "messages": [
                {"role": "user", "content": "Hello"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": each, "name": "find", "input": {}} for each in ("toolu_1", LONG)],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "one"},
                        {"type": "tool_result", "tool_use_id": LONG, "content": "two"},
                    ],
                },
            ],
        },
    ),
    "responses": (
        "/v1/responses",
        {
            "input": [
                {"role": "user", "content": "Hello"},
                *({"type": "function_call", "call_id": each, "name": "find", "arguments": "{}"} for each in ("toolu_1", LONG)),
                {"type": "function_call_output", "call_id": "toolu_1", "output": "one"},
                {"type": "function_call_output", "call_id": LONG, "output": "two"},
            ]
        },
    ),
}


@pytest.mark.parametrize("language", CALLED)
@pytest.mark.parametrize(
    ("host", "pattern", "keeps"),
    [
        ("api.openai.com", r"[A-Za-z0-9_-]{1,40}", ["toolu_1"]),
        ("api.mistral.ai", r"[A-Za-z0-9]{9}", []),
        ("api.groq.com", r".+", ["toolu_1", LONG]),
    ],
)
def test_ids_of_calls_of_other_makers_are_made_acceptable_to_the_upstream(
    api, upstream, played_as, language, host, pattern, keeps
):
    played_as(host)
    path, fields = CALLED[language]
    assert api.post(path, {"model": "acme/large", **fields}).status_code == 200
    _, called, *results = upstream.requests[0].body["messages"]
    ids = [each["id"] for each in called["tool_calls"]]
    assert [result["tool_call_id"] for result in results] == ids
    assert [each for each in ids if re.fullmatch(pattern, each)] == [*dict.fromkeys(ids)], "each is taken, and is one's own"
    assert [each for each in ("toolu_1", LONG) if each in ids] == keeps


def test_an_id_of_mistral_comes_back_to_it_as_it_was(api, upstream, played_as):
    played_as("api.mistral.ai")
    calls = {"role": "assistant", "content": None, "tool_calls": [{**CALL, "id": "D681PevKs"}]}
    ask(api, messages=[*MESSAGES, calls, {"role": "tool", "tool_call_id": "D681PevKs", "content": "one"}])
    _, called, result = upstream.requests[0].body["messages"]
    assert (called["tool_calls"][0]["id"], result["tool_call_id"]) == ("D681PevKs", "D681PevKs")


TOOLS_OF_OTHERS = [{**FIND, "cache_control": {"type": "ephemeral"}}]


def test_a_server_of_the_operators_own_receives_messages_with_every_field(api, large, upstream):
    change_provider(large, passes_unknown_fields=True)
    reply = ask(api, messages=CONVERSATION, tools=TOOLS_OF_OTHERS)
    assert (reply.status_code, "x-gateway-ignored-fields" in reply) == (200, False)
    asked = upstream.requests[0].body
    assert (asked["messages"], asked["tools"]) == (as_system(CONVERSATION), TOOLS_OF_OTHERS)


def test_other_upstreams_receive_messages_without_unknown_fields(api, upstream):
    reply = ask(api, messages=CONVERSATION, tools=TOOLS_OF_OTHERS)
    known = [
        {name: value for name, value in message.items() if name not in ("annotations", "audio")} for message in CONVERSATION
    ]
    assert (reply.status_code, reply["x-gateway-ignored-fields"]) == (200, "messages.annotations")
    asked = upstream.requests[0].body
    assert (asked["messages"], asked["tools"]) == (as_system(known), TOOLS_OF_OTHERS)


def test_unknown_options_of_a_stream_go_to_servers_of_the_operators_own_only(api, large, upstream):
    upstream.will(streamed(), streamed())
    for is_own in (False, True):
        change_provider(large, passes_unknown_fields=is_own)
        events(ask_streamed(api, stream_options={"include_usage": True, "continuous_usage_stats": True}))
    first, second = (asked.body["stream_options"] for asked in upstream.requests)
    assert first == {"include_usage": True}
    assert second == {"include_usage": True, "continuous_usage_stats": True}


@pytest.mark.parametrize("host", ["api.openai.com", "api.groq.com"])
def test_name_is_kept_in_messages_of_role_function(api, upstream, played_as, host):
    played_as(host)
    old = [*MESSAGES, {"role": "assistant", "content": None, "function_call": CALL["function"]}]
    old.append({"role": "function", "name": "find", "content": "one"})
    assert ask(api, messages=old).status_code == 200
    assert upstream.requests[0].body["messages"] == old


# --- Tools -------------------------------------------------------------------------------------------------------

CALLS = [CALL, {"id": "d", "type": "function", "function": {"name": "find", "arguments": '{"q": "é"}'}}]


def test_tool_calls_and_results_are_passed_on(api, upstream):
    message = {"role": "assistant", "content": None, "tool_calls": CALLS}
    upstream.will(whole(message=message, finish_reason="tool_calls"), whole("Found."))
    [called] = ask(api, tools=[FIND]).json()["choices"]
    assert (called["message"], called["finish_reason"]) == (message, "tool_calls")
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "one"} for call in CALLS]
    said = ask(api, tools=[FIND], messages=[*MESSAGES, called["message"], *results]).json()["choices"][0]
    assert said["message"]["content"] == "Found."
    assert upstream.requests[1].body["messages"] == [*MESSAGES, message, *results]


def test_tool_calls_are_streamed_in_pieces(api, alice, upstream):
    deltas = [
        {"tool_calls": [{"index": 0, **CALL, "function": {"name": "find", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"q":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"é"}'}}]},
        {"tool_calls": [{"index": 1, **CALL, "id": "d"}]},
    ]
    upstream.will(stream(ROLE, b"".join(map(chunk, deltas)), chunk(finish_reason="tool_calls"), usage(), DONE))
    *said, done = events(ask_streamed(api, tools=[FIND], parallel_tool_calls=True))
    assert [event["choices"][0]["delta"] for event in said] == [{"role": "assistant", "content": ""}, *deltas, {}]
    assert said[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert done == "[DONE]"
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


@pytest.mark.parametrize(
    ("said", "tokens"),
    [
        ({"tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sql4", "input": "SELECT 1"}}]}, 3),
        ({"function_call": {"name": "find", "arguments": "12345678"}}, 3),
    ],
    ids=["custom", "old"],
)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_custom_and_old_calls_are_estimated_without_usage(api, alice, upstream, said, tokens, is_stream):
    if is_stream:
        upstream.will(stream(ROLE, chunk(said), FINISH, DONE))
        assert events(ask_streamed(api))[-1] == "[DONE]"
    else:
        upstream.will(whole(message={"role": "assistant", "content": None, **said}, usage=None))
        assert ask(api).json()["choices"][0]["message"].items() >= said.items()
    nanos = PROMPT_ESTIMATE * 3_000 + tokens * 15_000
    assert_charged(alice, "estimated", prompt=PROMPT_ESTIMATE, completion=tokens, nanos=nanos)


# --- Formats of the reply ----------------------------------------------------------------------------------------


def test_reply_to_a_json_schema_is_text(api, upstream):
    upstream.will(whole('{"answer": 42}'))
    assert ask(api, response_format=SCHEMA).json()["choices"][0]["message"]["content"] == '{"answer": 42}'
    assert upstream.requests[0].body["response_format"] == SCHEMA


LOGPROBS = {"content": [{"token": "Hi", "logprob": -0.1, "bytes": [72, 105], "top_logprobs": []}], "refusal": None}


def test_logprobs_are_passed_on_whole_and_streamed(api, upstream):
    word = chunk(choices=[{"index": 0, "delta": {"content": "Hi"}, "logprobs": LOGPROBS, "finish_reason": None}])
    upstream.will(whole("Hi", logprobs=LOGPROBS), stream(ROLE, word, FINISH, usage(), DONE))
    assert ask(api, logprobs=True).json()["choices"][0]["logprobs"] == LOGPROBS
    said = events(ask_streamed(api, logprobs=True))
    assert said[1]["choices"] == [{"index": 0, "delta": {"content": "Hi"}, "logprobs": LOGPROBS, "finish_reason": None}]


# --- Several choices ---------------------------------------------------------------------------------------------

TWICE = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}


def both(usage=TWICE):
    choices = [
        {"index": place, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        for place, text in enumerate(["Hello", "Hi"])
    ]
    return reply(json.dumps({"choices": choices, "usage": usage}).encode())


def of(place, delta, finish_reason=None):
    return chunk(choices=[{"index": place, "delta": delta, "finish_reason": finish_reason}])


BEGUN = [of(0, {"role": "assistant", "content": ""}), of(1, {"role": "assistant", "content": ""}), of(0, {"content": "Hello"})]


def test_two_choices_are_held_and_charged(api, alice, upstream):
    upstream.will(both())
    answer = ask(api, n=2, max_tokens=100).json()
    assert [(choice["index"], choice["message"]["content"]) for choice in answer["choices"]] == [(0, "Hello"), (1, "Hi")]
    assert answer["usage"]["completion_tokens"] == 5
    assert alice.holds.get().amount_nanos == prompt_bytes(MESSAGES) * 3_000 + 2 * 100 * 15_000
    assert upstream.requests[0].body["max_tokens"] == 100  # of each choice
    assert_charged(alice, "reported", prompt=9, completion=5, nanos=9 * 3_000 + 5 * 15_000)


def test_choices_share_the_default_token_limit(api, alice, large, upstream):
    factories.change_prices(large.prices, output_nanos=60_000_000_000)
    ask(api, n=16)
    cap = upstream.requests[0].body["max_tokens"]
    assert 1_024 < cap < 4_096
    assert 16 * cap * 60_000 < alice.holds.get().amount_nanos <= 10_000_000_000 // 8


def test_each_choice_counts_against_tokens_per_minute(alice, large, upstream):
    client = client_for(make_key(alice, tokens_per_minute=150)[1])
    assert_error(ask(client, n=2, max_tokens=100), 429, "rate_limit_exceeded")
    assert upstream.requests == []
    assert ask(client, n=1, max_tokens=100).status_code == 200


def test_two_choices_are_streamed_interleaved(api, alice, upstream):
    end = [of(0, {}, "stop"), of(1, {"content": "Hi"}), of(1, {}, "length")]
    upstream.will(stream(*BEGUN, *end, usage(TWICE), DONE))
    *said, done = events(ask_streamed(api, n=2))
    assert [(event["choices"][0]["index"], event["choices"][0]["delta"].get("content")) for event in said] == [
        (0, ""),
        (1, ""),
        (0, "Hello"),
        (0, None),
        (1, "Hi"),
        (1, None),
    ]
    assert done == "[DONE]"
    assert_charged(alice, "reported", prompt=9, completion=5, nanos=9 * 3_000 + 5 * 15_000)


def test_stream_with_an_unfinished_choice_is_broken(api, alice, upstream):
    upstream.will(stream(*BEGUN, of(0, {}, "stop"), of(1, {"content": "I wan"}), CLOSE))
    *_, last = events(ask_streamed(api, n=2))
    assert last["error"]["code"] == "upstream_error"
    tokens = 3  # estimated from ten bytes
    nanos = PROMPT_ESTIMATE * 3_000 + tokens * 15_000
    assert_charged(alice, "partial", prompt=PROMPT_ESTIMATE, completion=tokens, nanos=nanos)


def test_done_ends_a_stream_with_fewer_choices_than_requested(api, alice, upstream):
    upstream.will(stream(ROLE, words("Hello"), FINISH, usage(), DONE))
    assert events(ask_streamed(api, n=2))[-1] == "[DONE]"
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_estimate_of_choices_is_capped_by_their_limits(api, alice, upstream, is_stream):
    long = "x" * 400
    if is_stream:
        upstream.will(stream(of(0, {"content": long}), of(1, {"content": long}), of(0, {}, "stop"), of(1, {}, "stop"), DONE))
        events(ask_streamed(api, n=2, max_tokens=60))
    else:
        message = {"role": "assistant", "content": long}
        choices = [{"index": place, "message": message, "finish_reason": "stop"} for place in range(2)]
        upstream.will(reply(json.dumps({"choices": choices}).encode()))
        ask(api, n=2, max_tokens=60)
    assert_charged(alice, "estimated", prompt=5, completion=120, nanos=5 * 3_000 + 120 * 15_000)


# --- Cache writes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_cache_writes_have_their_own_price(api, alice, large, upstream, is_stream):
    factories.change_prices(large.prices, cache_write_nanos=3_750_000_000)
    told = {**USAGE, "prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 20}}
    upstream.will(stream(ROLE, FINISH, usage(told), DONE) if is_stream else whole(usage=told))
    events(ask_streamed(api)) if is_stream else ask(api)
    nanos = 50 * 3_000 + 30 * 300 + 20 * 3_750 + 2 * 15_000
    assert_charged(alice, "reported", prompt=100, cached=30, completion=2, nanos=nanos)
    assert Completion.objects.get().cache_write_tokens == 20
