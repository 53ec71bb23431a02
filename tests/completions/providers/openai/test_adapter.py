"""The OpenAI adapter against a real server on loopback: requests, replies, refusals, failures and charges."""

import gzip
import json
import logging
import socket
from urllib.parse import urlsplit

import pytest

from completions.catalog import file as catalog_file
from completions.catalog import lookup
from completions.providers.adapters import OpenAIAdapter
from completions.providers.openai.request import QUIRKS
from tests import factories
from tests.chat import prompt_bytes, reasoning
from tests.completions.routes import change_provider
from tests.completions.rows import MESSAGES, ask, ask_streamed, assert_charged, assert_released, events, text
from tests.upstream import (
    CLOSE,
    DONE,
    FINISH,
    HANG,
    KEY,
    RESET,
    ROLE,
    USAGE,
    chunk,
    event,
    refusal,
    reply,
    stream,
    streamed,
    usage,
    whole,
    words,
)

pytestmark = pytest.mark.usefixtures("large")


# --- Requests ----------------------------------------------------------------------------------------------------


def test_request_has_the_upstream_model_and_key(api, alice, upstream):
    assert ask(api).status_code == 200
    [asked] = upstream.requests
    assert asked.path == "/v1/chat/completions"
    assert asked.body["model"] == "large-2026"
    assert asked.body["messages"] == MESSAGES
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert "mgw_live_" not in json.dumps([asked.headers, asked.body])


def test_limit_that_the_hold_pays_for_is_sent_without_max_tokens(api, alice, upstream):
    ask(api)
    cap = upstream.requests[0].body["max_tokens"]
    assert cap == 4096  # an eighth of $10 would buy more than the model generates
    hold = alice.holds.get()
    assert hold.amount_nanos == prompt_bytes(MESSAGES) * 3_000 + cap * 15_000


CAPS = [{"max_tokens": 17}, {"max_completion_tokens": 17}, {"max_tokens": None, "max_completion_tokens": 17}]


def caps(asked):
    return {field: value for field, value in asked.body.items() if "tokens" in field}


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("other", [{}, {"max_tokens": None}, {"max_completion_tokens": None}], ids=["alone", "old", "new"])
def test_token_limit_keeps_its_field_name(api, upstream, name, other):
    ask(api, **{**other, name: 17})
    assert caps(upstream.requests[0]) == {name: 17}


def test_small_balance_lowers_the_token_limit(bob, upstream):
    from tests.conftest import client_for

    factories.credit(bob, 4)
    ask(client_for(factories.make_key(bob)[1]))
    assert 1_024 <= upstream.requests[0].body["max_tokens"] < 4_096


def test_usage_is_always_requested(api, upstream):
    upstream.will(streamed())
    events(ask_streamed(api))
    events(ask_streamed(api, stream_options={"include_usage": False, "include_obfuscation": False}))
    first, second = upstream.requests
    assert first.body["stream_options"] == {"include_usage": True}
    assert second.body["stream_options"] == {"include_usage": True, "include_obfuscation": False}
    assert first.headers["accept"] == "text/event-stream"


def test_whole_reply_is_not_requested_as_a_stream(api, upstream):
    ask(api)
    assert upstream.requests[0].body["stream"] is False
    assert "stream_options" not in upstream.requests[0].body


def test_unknown_fields_are_passed_on_to_servers_of_the_operators_own(api, large, upstream):
    large.function_calling = True
    large.save()
    change_provider(large, passes_unknown_fields=True)
    ask(api, temperature=0.5, stop=["\n"], tools=[{"type": "function", "function": {"name": "f"}}], strange={"é": [1, None]})
    asked = upstream.requests[0].body
    assert (asked["temperature"], asked["stop"], asked["strange"]) == (0.5, ["\n"], {"é": [1, None]})
    assert asked["tools"] == [{"type": "function", "function": {"name": "f"}}]


@pytest.mark.parametrize("name", ["n_predict", "models", "search_settings", "options"])
def test_fields_that_change_limit_model_or_price_are_not_passed_on(api, upstream, name):
    assert ask(api, **{name: ["acme/large"]}).status_code == 200
    assert name not in upstream.requests[0].body


def test_echo_script_is_not_passed_on(api, upstream):
    ask(api, echo={"reply": "for the echo alone"})
    assert "echo" not in upstream.requests[0].body


# --- Quirks ------------------------------------------------------------------------------------------------------


@pytest.fixture
def played_as(upstream, monkeypatch):
    """Give the upstream the quirks of a known host."""

    def play(host):
        monkeypatch.setitem(QUIRKS, urlsplit(upstream.url).hostname, QUIRKS[host])

    return play


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("given", "cap"), [({}, 4096), *((given, 17) for given in CAPS)], ids=["none", "old", "new", "null"])
@pytest.mark.parametrize(("host", "name"), [("api.openai.com", "max_completion_tokens"), ("api.mistral.ai", "max_tokens")])
def test_token_limit_has_the_name_that_the_upstream_accepts(api, upstream, played_as, host, name, given, cap, stream):
    played_as(host)
    if stream:
        upstream.will(streamed())
        assert text(events(ask_streamed(api, **given))) == "Hello you"
    else:
        assert ask(api, **given).status_code == 200
    assert caps(upstream.requests[0]) == {name: cap}


def test_openai_stream_requests_usage(api, upstream, played_as):
    played_as("api.openai.com")
    upstream.will(streamed())
    events(ask_streamed(api))
    assert upstream.requests[0].body["stream_options"] == {"include_usage": True, "include_obfuscation": False}


@pytest.mark.parametrize("options", [None, {}, {"include_usage": True}, {"include_usage": False}], ids=str)
def test_mistral_receives_no_stream_options_and_reports_usage(api, alice, upstream, played_as, options):
    played_as("api.mistral.ai")
    upstream.will(stream(ROLE, words("Hello ", "you"), chunk(finish_reason="stop", usage=USAGE), DONE))
    said = events(ask_streamed(api, stream_options=options))
    assert "stream_options" not in upstream.requests[0].body
    assert text(said) == "Hello you"
    told = [event["usage"]["total_tokens"] for event in said[:-1] if event.get("usage")]
    assert told == ([11] if options == {"include_usage": True} else [])
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_each_host_of_the_built_in_catalog_has_its_quirks():
    catalog = catalog_file.read([catalog_file.BUILT_IN])
    columns = [provider.columns for provider in catalog.providers.values() if provider.kind == "openai"]
    assert {urlsplit(each["base_url"]).hostname for each in columns} <= set(QUIRKS)
    assert not any(each["passes_unknown_fields"] for each in columns)


# --- Connections -------------------------------------------------------------------------------------------------


def test_connections_are_reused(api, upstream):
    for _ in range(3):
        ask(api)
    assert [asked.connection for asked in upstream.requests] == [1, 1, 1]


def test_closed_connection_is_not_reused(api, upstream):
    upstream.will([*whole(), CLOSE], whole())
    assert [ask(api).status_code for _ in range(2)] == [200, 200]
    assert [asked.connection for asked in upstream.requests] == [1, 2]


def test_no_key_is_sent_to_an_upstream_without_one(api, upstream):
    provider = factories.make_provider("open", kind="openai", base_url=f"{upstream.url}/")
    factories.make_model("acme/open", provider=provider)
    assert ask(api, model="acme/open").status_code == 200
    assert "authorization" not in upstream.requests[0].headers
    assert upstream.requests[0].path == "/v1/chat/completions"


# --- Refusals ----------------------------------------------------------------------------------------------------

REFUSALS = [
    (400, 400, "invalid_request_error"),
    (413, 400, "invalid_request_error"),
    (422, 400, "invalid_request_error"),
    (401, 502, "upstream_error"),
    (402, 502, "upstream_error"),
    (403, 502, "upstream_error"),
    (404, 502, "upstream_error"),
    (302, 502, "upstream_error"),
    (429, 503, "upstream_error"),
    (500, 502, "upstream_error"),
    (503, 503, "upstream_error"),
    (529, 503, "upstream_error"),
    (504, 504, "upstream_error"),
    (408, 504, "upstream_error"),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("theirs", "ours", "code"), REFUSALS, ids=[str(row[0]) for row in REFUSALS])
def test_refusal_is_translated_and_costs_nothing(api, alice, upstream, theirs, ours, code, stream):
    upstream.will(refusal(theirs, "a reason"))
    answer = ask(api, stream=stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (ours, code)
    assert ("a reason" in answer.json()["error"]["message"]) == (ours == 400)
    assert "x-request-id" in answer
    assert len(upstream.requests) == (2 if theirs in (408, 429) or theirs >= 500 else 1)  # retryable failures are retried once
    assert_released(alice)


@pytest.mark.parametrize(
    ("given", "passed"),
    [("7", "7"), ("60", "60"), ("61", None), ("-1", None), ("soon", None), ("9" * 5_000, None), ("", None)],
    ids=["7", "60", "61", "-1", "soon", "5000 digits", "empty"],
)
def test_short_retry_after_is_passed_on(api, alice, upstream, given, passed):
    upstream.will(refusal(429, retry_after=given))
    answer = ask(api)
    assert (answer.status_code, answer.get("Retry-After")) == (503, passed)
    assert_released(alice)


@pytest.mark.parametrize(
    "message",
    [f"Incorrect key {KEY}", "x" * 280 + KEY, f"\u200b{KEY[:8]}\u200b{KEY[8:]}"],
    ids=["plain", "across the cut", "with invisible characters"],
)
def test_api_key_is_in_no_message_and_no_log(api, upstream, caplog, message):
    caplog.set_level(logging.DEBUG)
    broken = stream(ROLE, event({"error": {"message": message}}))
    for script, fields in [(refusal(400, message), {}), (refusal(401, message), {}), (broken, {"stream": True})]:
        upstream.will(script)
        answer = ask(api, **fields)
        said = str(events(answer)) if answer.streaming else answer.content.decode()
        assert KEY[:12] not in said
    assert KEY[:12] not in caplog.text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'[{"error":{"message":"in a list"}}]', "in a list"),
        (b'{"error":"as text"}', "as text"),
        (b'{"error":{"message":null}}', "no reason given"),
        (b'{"detail":"elsewhere"}', "elsewhere"),
        (b"<h1>Bad Request</h1>", "no reason given"),
        (b"[" * 100_000, "no reason given"),
        (b"", "no reason given"),
    ],
    ids=["list", "text", "null", "elsewhere", "html", "deep", "empty"],
)
def test_refusal_is_read_in_every_shape(api, alice, upstream, body, said):
    upstream.will(reply(body, status=400))
    answer = ask(api)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]
    assert_released(alice)


# --- Silence -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_refused_connection_is_unreachable(api, alice, large, stream):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    provider = large.routes.get().provider
    provider.base_url = f"http://127.0.0.1:{port}/v1"
    provider.save()
    answer = ask(api, stream=stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert str(port) not in answer.content.decode()
    assert_released(alice)


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example", "\uff11.example\u3002."])
def test_invalid_host_is_unreachable(api, alice, large, host):
    large.routes.get().provider.__class__.objects.update(base_url=f"http://{host}/v1")
    assert ask(api).status_code == 502
    assert_released(alice)


def test_unknown_host_is_unreachable(api, alice, large):
    provider = large.routes.get().provider
    provider.base_url = "http://upstream.invalid/v1"
    provider.save()
    assert ask(api).status_code == 502
    assert_released(alice)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_upstream_at_a_private_address_is_unreachable_unless_permitted(
    api, alice, upstream, large, settings, caplog, stream
):
    settings.PRIVATE_UPSTREAMS = []
    answer = ask(api, stream=stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert "private" not in answer.content.decode()
    assert "is at a private address, which GATEWAY_PRIVATE_UPSTREAMS does not permit" in caplog.text
    assert upstream.requests == []
    assert_released(alice)


def test_silence_before_a_stream_is_a_timeout_and_costs_nothing(api, alice, upstream, settings):
    settings.UPSTREAM_FIRST_BYTE_SECONDS, settings.UPSTREAM_TOTAL_SECONDS = 1, 2  # until then it is read on, after the 504
    upstream.will([HANG])
    answer = ask(api, stream=True)
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "upstream_error")
    assert upstream.sees_disconnect()
    assert_released(alice)


def test_endless_head_is_bounded_by_the_total_deadline(api, alice, upstream, settings):
    settings.UPSTREAM_TOTAL_SECONDS = 0.5
    upstream.will([b"HTTP/1.1 200 OK\r\n", *[b"X-Drip: a\r\n", 0.1] * 50])
    assert ask(api, max_tokens=10).status_code == 504
    assert upstream.sees_disconnect()
    assert_released(alice)


def test_silence_after_the_head_costs_nothing(api, alice, upstream, settings):
    settings.UPSTREAM_IDLE_SECONDS = 0.1
    upstream.will([b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", HANG])
    assert ask(api, max_tokens=10).status_code == 504
    assert upstream.sees_disconnect()
    assert_released(alice)


@pytest.mark.parametrize("end", [RESET, CLOSE])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_connection_closed_before_the_reply_is_retried_once(api, alice, upstream, stream, end):
    upstream.will([end])
    answer = ask(api, stream=stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert len(upstream.requests) == 2  # retried: no byte had arrived
    assert_released(alice)


# --- Unusable replies --------------------------------------------------------------------------------------------

NONSENSE = {
    "html": b"<html>Welcome</html>",
    "empty": b"",
    "half": b'{"choices":[{"index":0,"message":{"role":"assi',
    "null": b"null",
    "list": b"[]",
    "no choices": b'{"choices":[]}',
    "choices are null": b'{"choices":null}',
    "choices are an object": b'{"choices":{"message":{}}}',
    "choices are text": b'{"choices":"x"}',
    "a choice is null": b'{"choices":[null]}',
    "a message is text": b'{"choices":[{"message":"x"}]}',
    "NaN": b'{"choices":[{"message":{"content":"x"},"logprobs":NaN}]}',
    "too large a number": b'{"choices":[{"message":{"content":"x"},"logprobs":1e999}]}',
    "not UTF-8": b'{"choices":[{"message":{"content":"\xff"}}]}',
    "too deep": b'{"choices":' + b"[" * 100_000,
    "an error": b'{"error":{"message":"overloaded"}}',
    "gzip": gzip.compress(b'{"choices":[{"message":{"content":"x"}}]}'),
}


@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE.keys())
def test_unusable_whole_reply_costs_nothing(api, alice, upstream, body):
    upstream.will(reply(body))
    answer = ask(api)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert_released(alice)


def test_whole_reply_is_bounded(api, alice, upstream, settings):
    settings.UPSTREAM_REPLY_BYTES_MAX = 10_000
    upstream.will(whole("x" * 20_000))
    assert ask(api).status_code == 502
    assert_released(alice)


def test_response_that_is_not_http_costs_nothing(api, alice, upstream):
    upstream.will([b"220 mail.example.org ESMTP\r\n", CLOSE])
    assert ask(api).status_code == 502
    assert_released(alice)


@pytest.mark.parametrize(
    "first",
    [
        b"<html>Welcome</html>",
        b"",
        b"data: hello\n\n",
        b"data: [1]\n\n",
        b"data: \xff\n\n",
        b'data: {"choices":{}}\n\n data: {"choices":{"a":1}}\n\n',
        b'data: {"choices":[1]}\n\n',
        b"data: " + b"[" * 100_000 + b"\n\n",
        b'data: {"error":{"message":"overloaded"}}\n\n',
        DONE,
    ],
    ids=["html", "empty", "text", "list", "not UTF-8", "no choice", "bad choice", "too deep", "error", "nothing but [DONE]"],
)
def test_unusable_stream_is_an_error_status_and_costs_nothing(api, alice, upstream, first):
    upstream.will(stream(first))
    answer = ask_streamed(api)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert_released(alice)


def test_lone_surrogate_is_replaced_in_whole_replies_and_escaped_in_streams(api, upstream):
    half = r'{"choices":[{"index":0,"message":{"role":"assistant","content":"a\ud83d"},"finish_reason":"length"}]}'
    upstream.will(reply(half.encode()))
    answer = ask(api)
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"] == "a?"
    halves = stream(ROLE, words("\ud83d"), words("\ude00"), FINISH, DONE)
    upstream.will(halves)
    said = text(events(ask_streamed(api)))
    assert said.encode("utf-16", "surrogatepass").decode("utf-16") == "😀"


# --- Spellings of a stream ---------------------------------------------------------------------------------------


def _spaced(data: bytes) -> bytes:
    blocks = [block.removeprefix(b"data: ") for block in data.split(b"\n\n") if block]
    return b"".join(
        b"data:" + (block if block == b"[DONE]" else json.dumps(json.loads(block)).encode()) + b"\r\n\r\n" for block in blocks
    )


STREAM = ROLE + words("Hello ", '"finish_reason":null é漢😀 \\ \n', "you") + FINISH + usage() + DONE
SPELLINGS = {
    "at once": [STREAM],
    "a byte at a time": [bytes([byte]) for byte in STREAM],
    "with spaces and CRLF": [_spaced(STREAM)],
    "with comments": [STREAM.replace(b"data:", b": ping\n\nevent: message\nid: 1\ndata:")],
    "without the last blank line": [STREAM.removesuffix(b"\n\n")],
    "without [DONE]": [STREAM.removesuffix(DONE)],
    "with more after [DONE]": [STREAM, words("never"), usage({"prompt_tokens": 1, "completion_tokens": 1}), DONE],
    "broken after the finish": [STREAM.removesuffix(DONE), 0.05, RESET],
    "the finish reason twice": [STREAM.replace(usage(), FINISH + usage() + usage())],
}


@pytest.mark.parametrize("steps", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_stream_is_read_in_every_valid_framing(api, alice, upstream, steps):
    upstream.will(stream(*steps))
    said = events(ask_streamed(api))
    assert text(said) == 'Hello "finish_reason":null é漢😀 \\ \nyou'
    assert said.count("[DONE]") == 1
    assert said[-1] == "[DONE]"
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_http_1_0_stream_that_ends_by_closing_is_read(api, alice, upstream):
    upstream.will([b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", STREAM, CLOSE])
    assert events(ask_streamed(api))[-1] == "[DONE]"
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_choices_are_passed_on_with_all_their_fields(api, upstream):
    call = {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
    upstream.will(stream(ROLE, chunk(call), chunk(finish_reason="tool_calls"), usage(), DONE))
    said = events(ask_streamed(api))
    assert said[1]["choices"][0]["delta"] == call
    assert said[2]["choices"][0]["finish_reason"] == "tool_calls"


def test_tool_calls_and_reasoning_are_estimated_without_usage(api, alice, upstream):
    call = {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "x" * 11}}]}
    upstream.will(stream(ROLE, chunk({"reasoning_content": "y" * 8}), chunk(call), chunk(finish_reason="tool_calls"), DONE))
    events(ask_streamed(api))
    assert_charged(alice, "estimated", prompt=5, completion=5, nanos=5 * 3_000 + 5 * 15_000)


def test_openai_adapter_accepts_every_request(large):
    assert OpenAIAdapter().check(None) is None
    assert [route.kind for route in lookup.find_offer("acme/large").routes] == ["openai"]


# --- Refusals, in every shape -----------------------------------------------------------------------------------------


def refused_with(body, status=400, **headers):
    return reply(body if isinstance(body, bytes) else json.dumps(body).encode(), status=status, **headers)


REASON = "temperature is out of range"
REASONS = {
    "openai": {"error": {"message": REASON}},
    "mistral": {"object": "error", "message": REASON, "code": "3051"},
    "fastapi": {"detail": [{"loc": ["body", "nothing"], "msg": REASON}]},
    "fastapi's text": {"detail": REASON},
    "message": {"message": REASON},
    "text": REASON.encode(),
    "page": f"<html><title>{REASON}</title></html>".encode(),
}


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize("body", REASONS.values(), ids=REASONS.keys())
def test_reason_reaches_the_caller_and_the_log(api, alice, upstream, caplog, body, status, streaming):
    upstream.will(refused_with(body, status))
    with caplog.at_level(logging.WARNING, logger="gateway.providers"):
        told = ask(api, stream=streaming)
    error = told.json()["error"]
    assert (told.status_code, error["type"], error["code"], error["param"]) == (
        400,
        "invalid_request_error",
        "invalid_request_error",
        None,
    )
    assert REASON in error["message"]
    assert REASON in caplog.text
    assert_released(alice)


def test_reason_is_one_clean_line_of_bounded_length_without_our_key(api, upstream):
    upstream.will(refused_with({"message": f"a\r\nb\x1b[31m\u202e\x00 {KEY[:9]}\x07{KEY[9:]} " + "x" * 100_000}))
    message = ask(api).json()["error"]["message"]
    assert message.startswith("The model's provider refused the request: a b[31m *** xxx")
    assert len(message) < 400
    assert message.isprintable()


@pytest.mark.parametrize(
    ("code", "passed_on"),
    [
        ("context_length_exceeded", "context_length_exceeded"),
        ("content_filter", "content_filter"),
        ("unsupported_parameter", "unsupported_parameter"),
        ("model_not_found", "invalid_request_error"),
        ("upstream_code", "invalid_request_error"),
        (400, "invalid_request_error"),
        (None, "invalid_request_error"),
    ],
)
def test_known_codes_are_passed_on(api, upstream, code, passed_on):
    upstream.will(refused_with({"error": {"message": "no", "type": "theirs", "code": code, "param": None}}))
    error = ask(api).json()["error"]
    assert (error["code"], error["type"]) == (passed_on, "invalid_request_error")


def test_overflow_has_its_code_where_the_upstream_has_none(api, upstream):
    upstream.will(refused_with({"object": "error", "message": "This model's maximum context length is 4096 tokens."}))
    assert ask(api).json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    ("param", "passed_on"),
    [
        ("messages", "messages"),
        ("messages[0].content", "messages[0].content"),
        ("temperature", "temperature"),
        ("max_completion_tokens", "max_tokens"),
        ("seed", None),
        ("input_tokens", None),
        ("messages<script>", None),
        ("messages." + "x" * 100, None),
        ("", None),
        (7, None),
    ],
)
def test_param_is_passed_on_when_it_names_a_field_of_the_request(api, upstream, param, passed_on):
    upstream.will(refused_with({"error": {"message": "no", "param": param}}))
    assert ask(api, temperature=1, max_tokens=7).json()["error"]["param"] == passed_on


def test_location_of_a_validation_error_is_the_param(api, upstream):
    upstream.will(refused_with({"detail": [{"loc": ["body", "temperature"], "msg": "no"}]}, 422))
    assert ask(api, temperature=1).json()["error"]["param"] == "temperature"


@pytest.mark.parametrize(
    "body",
    [
        {"code": "Client specified an invalid argument", "error": f"Incorrect API key provided: {KEY[:3]}***."},
        {"error": {"message": "no", "code": "invalid_api_key"}},
        {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}},
    ],
)
def test_refusal_of_our_own_account_is_not_the_callers(api, alice, upstream, body):
    upstream.will(refused_with(body))
    told = ask(api)
    assert (told.status_code, told.json()["error"]["code"]) == (502, "upstream_error")
    assert "key" not in told.json()["error"]["message"]
    assert_released(alice)


PACKED = gzip.compress(json.dumps({"error": {"message": "no"}}).encode())
LOGGED = {
    "redirect": (
        reply(b"", status=308, location=f"https://elsewhere.example/v1?key={KEY}"),
        "answered 308: it redirects to https://elsewhere.example/v1?key=***",
    ),
    "compressed refusal": (
        reply(PACKED, status=500, content_encoding="br"),
        f"answered 500: no reason given ({len(PACKED)} bytes of application/json, compressed with br)",
    ),
    "compressed reply": (
        reply(PACKED, content_encoding="br"),
        f"({len(PACKED)} bytes of application/json, compressed with br)",
    ),
    "page": (
        reply(b"<html><title>Please log in</title></html>", content_type="text/html"),
        "(41 bytes of text/html: Please log in)",
    ),
    "error with a 200": (reply(json.dumps({"error": {"message": "gone fishing"}}).encode()), "gone fishing"),
    "Mistral's error with a 200": (reply(json.dumps({"object": "error", "message": "gone fishing"}).encode()), "gone fishing"),
}


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("script", "words"), LOGGED.values(), ids=LOGGED.keys())
def test_log_says_what_an_unusable_reply_was(api, alice, upstream, caplog, script, words, streaming):
    upstream.will(script)
    with caplog.at_level(logging.WARNING, logger="gateway.providers"):
        told = ask(api, stream=streaming)
    assert told.status_code == 502
    assert words in caplog.text
    assert KEY not in caplog.text
    assert "fishing" not in told.content.decode()
    assert_released(alice)


@pytest.mark.parametrize(
    "body",
    [
        b'{"choices":[{"message":{"content":"private matters',
        b"private matters",
        b"<p>private matters</p>",
        b'{"message":{"role":"assistant","content":"private matters"},"done":true}',
        b'{"message":"private matters"}',
        b'{"choices":[{"message":{"content":"private matters"},"finish_reason":"error"}]}',
        b'{"choices":[{"message":{"content":"private matters"},"error":{"code":500}}]}',
        b'{"choices":[{"message":{"content":"private matters"}}],"error":{"code":500}}',
    ],
)
def test_log_of_an_unusable_reply_does_not_quote_its_text(api, upstream, caplog, body):
    upstream.will(reply(body))
    with caplog.at_level(logging.WARNING, logger="gateway.providers"):
        assert ask(api).status_code == 502
    assert "private" not in caplog.text


# --- One form of replies ----------------------------------------------------------------------------------------------


def test_tool_calls_and_thoughts_have_one_form_whole_and_streamed(api, alice, upstream):
    tool_call = {"id": "c", "function": {"name": "f", "arguments": {"x": 1}}}
    message = {"content": [{"type": "text", "text": "Hello you"}], "reasoning": "Hm", "tool_calls": [tool_call]}
    upstream.will(whole(message=message), stream(chunk(message), FINISH, usage(), DONE))
    [choice] = ask(api).json()["choices"]
    called = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
    assert choice["message"] == {
        "role": "assistant",
        "content": "Hello you",
        **reasoning("Hm"),
        "tool_calls": [called],
    }
    assert choice["finish_reason"] == "tool_calls"
    first, last, _ = events(ask_streamed(api))
    assert first["choices"][0]["delta"] == {**choice["message"], "tool_calls": [{**called, "index": 0}]}
    assert last["choices"][0]["finish_reason"] == "tool_calls"


def test_whole_reply_and_stream_without_a_finish_reason_agree(api, alice, upstream):
    upstream.will(whole(finish_reason=None), stream(ROLE, words("Hello ", "you"), usage(), DONE))
    assert ask(api).json()["choices"][0]["finish_reason"] == "stop"
    *said, last, done = events(ask_streamed(api))
    assert (text([*said, last]), last["choices"][0]["finish_reason"], done) == ("Hello you", "stop", "[DONE]")
    assert [done.settlement for done in alice.completions.all()] == ["reported", "reported"]


def test_thoughts_in_tags_are_counted_where_no_usage_is_reported(api, alice, upstream):
    upstream.will(stream(ROLE, words("<think>Hello", "</think>\n", "you"), FINISH, DONE))
    said = events(ask_streamed(api))
    assert text(said) == "you"
    assert_charged(alice, "estimated", prompt=5, completion=2, nanos=5 * 3_000 + 2 * 15_000)
