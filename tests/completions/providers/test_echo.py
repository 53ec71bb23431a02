"""The echo provider: its replies, usage and scripted failures."""

import pytest

from billing.models import LedgerEntry
from completions.providers import sse
from tests import factories
from tests.completions.routes import let_providers_cancel
from tests.completions.rows import assert_charged, assert_released, begin, disconnect, events, parsed, text
from tests.ledger_audit import assert_ledger_is_consistent

pytestmark = pytest.mark.usefixtures("echo_model")

# 500 nanodollars per prompt token, 1,500 per generated one. A token is a word with the space after it; a message has 3 more.
QUESTION = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one two three"}]
PROMPT = 3 + 2 + 3 + 3


def ask(api, **fields):
    return api.post("/v1/chat/completions", {"model": "demo/echo", "messages": QUESTION, **fields})


def charged(alice, settlement, *, prompt=PROMPT, completion):
    nanos = prompt * 500 + completion * 1_500
    assert_charged(alice, settlement, prompt=prompt, completion=completion, nanos=nanos, model="demo/echo")


def test_echo_repeats_the_last_user_message(api, alice):
    answer = ask(api).json()
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "one two three", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert (answer["model"], answer["usage"]["total_tokens"]) == ("demo/echo", PROMPT + 3)
    charged(alice, "reported", completion=3)


def test_echo_streams_word_by_word(api, alice):
    received = events(ask(api, stream=True, stream_options={"include_usage": True}))
    *chunks, counted, done = received
    assert [event["choices"][0]["delta"] for event in chunks] == [
        {"role": "assistant", "content": ""},
        {"content": "one "},
        {"content": "two "},
        {"content": "three"},
        {},
    ]
    assert [event["choices"][0]["finish_reason"] for event in chunks] == [None] * 4 + ["stop"]
    assert counted["usage"] == ask(api).json()["usage"]
    assert done == "[DONE]"
    debits = LedgerEntry.objects.filter(account=alice, type="USAGE_DEBIT")
    assert len({entry.amount_nanos for entry in debits}) == 1  # whole and streamed cost the same
    assert_ledger_is_consistent()


def test_echo_stops_at_max_tokens(api, alice):
    answer = ask(api, max_tokens=2).json()
    assert answer["choices"][0]["message"]["content"] == "one two "
    assert answer["choices"][0]["finish_reason"] == "length"
    charged(alice, "reported", completion=2)


def test_reply_is_empty_without_a_user_message(api, alice):
    answer = ask(api, messages=[{"role": "system", "content": "Be brief."}]).json()
    assert (answer["choices"][0]["message"]["content"], answer["choices"][0]["finish_reason"]) == ("", "stop")
    charged(alice, "reported", prompt=5, completion=0)


def test_reply_can_be_scripted(api, alice):
    assert ask(api, echo={"reply": "é  漢字\n"}).json()["choices"][0]["message"]["content"] == "é  漢字\n"
    charged(alice, "reported", completion=2)


@pytest.mark.parametrize("separator", ["", " " * 40], ids=["one word", "blanks"])
def test_a_reply_costs_what_its_size_costs(api, alice, separator):
    reply = separator.join(["x" * 40] * 10)
    tokens = -(-len(reply) // 16) if not separator else 10 * 5 - 2  # the last word has no blanks after it
    answer = ask(api, echo={"reply": reply}).json()
    assert answer["choices"][0]["message"]["content"] == reply
    charged(alice, "reported", completion=tokens)


def test_a_long_word_ends_at_max_tokens_and_costs_as_a_prompt(api, alice):
    answer = ask(api, messages=[{"role": "user", "content": "x" * 100}], max_tokens=2).json()
    assert answer["choices"][0]["message"]["content"] == "x" * 32
    assert answer["choices"][0]["finish_reason"] == "length"
    charged(alice, "reported", prompt=3 + 7, completion=2)


@pytest.mark.parametrize(
    ("status", "ours"), [(400, 400), (401, 502), (404, 502), (408, 504), (429, 503), (500, 502), (503, 503), (504, 504)]
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_status_can_be_scripted(api, alice, status, ours, stream):
    answer = ask(api, stream=stream, echo={"status": status})
    assert answer.status_code == ours
    assert answer.json()["error"]["code"] == ("invalid_request_error" if ours == 400 else "upstream_error")
    assert_released(alice)


@pytest.mark.parametrize(("status", "attempts"), [(500, 2), (429, 2), (404, 1), (422, 1)])
def test_a_scripted_status_is_retried_as_that_of_another_provider(api, alice, status, attempts):
    answer = ask(api, echo={"status": status})
    assert answer["x-gateway-attempts"] == str(attempts)
    [done] = alice.completions.all()
    assert [failed["status"] for failed in done.failed_attempts] == [status] * attempts
    assert_released(alice)


def test_a_slow_stream_sends_keep_alive_comments(api, alice, settings):
    settings.STREAM_HEARTBEAT_SECONDS = 0.01
    raw = b"".join(ask(api, stream=True, echo={"delay_seconds": 0.035}))
    assert raw.count(sse.HEARTBEAT) == 3 * 3
    assert text(parsed(raw)) == "one two three"
    charged(alice, "reported", completion=3)


def test_stream_can_be_broken_off(api, alice):
    received = events(ask(api, stream=True, echo={"break_after_tokens": 2}))
    assert text(received) == "one two "
    assert received[-1]["error"]["code"] == "upstream_error"
    assert "[DONE]" not in received
    charged(alice, "partial", prompt=6, completion=2)  # 22 bytes of prompt and 8 relayed, at 4 bytes per token


@pytest.mark.parametrize("after", [0, 3, 99])
def test_whole_reply_can_be_broken_off_and_costs_nothing(api, alice, after):
    answer = ask(api, echo={"break_after_tokens": after})
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert_released(alice)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_usage_can_be_withheld(api, alice, stream):
    answer = ask(api, stream=stream, echo={"report_usage": False})
    if stream:
        assert events(answer)[-1] == "[DONE]"
    charged(alice, "estimated", prompt=6, completion=4)  # 13 bytes


def test_disconnect_from_a_slow_stream_charges_what_was_relayed(api, alice):
    let_providers_cancel()
    answer = ask(api, stream=True, echo={"delay_seconds": 0.05})
    begin(answer, "one ")
    disconnect(answer)
    charged(alice, "partial", prompt=6, completion=1)


def test_delay_is_bounded_by_the_total_deadline(api, alice, settings, clock):
    settings.UPSTREAM_TOTAL_SECONDS = 300
    raw, body = begin(ask(api, stream=True, echo={"delay_seconds": 0.02}), "one ")
    clock.move_on(300)
    received = parsed(raw + b"".join(body))
    assert text(received) == "one "
    assert "error" in received[-1]
    charged(alice, "partial", prompt=6, completion=1)


@pytest.mark.parametrize(
    ("echo", "param"),
    [
        ("loud", "echo"),
        ({"volume": 11}, "echo.volume"),
        ({"reply": 1}, "echo.reply"),
        ({"delay_seconds": 61}, "echo.delay_seconds"),
        ({"delay_seconds": -1}, "echo.delay_seconds"),
        ({"delay_seconds": True}, "echo.delay_seconds"),
        ({"status": 200}, "echo.status"),
        ({"status": "500"}, "echo.status"),
        ({"break_after_tokens": -1}, "echo.break_after_tokens"),
        ({"report_usage": "no"}, "echo.report_usage"),
    ],
)
def test_invalid_script_is_refused_before_money_is_held(api, alice, echo, param):
    answer = ask(api, echo=echo)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert not alice.holds.exists()
    assert not alice.completions.exists()


def test_echo_needs_no_provider_key(api):
    assert factories.make_provider().api_key_env == ""
    assert ask(api).status_code == 200
