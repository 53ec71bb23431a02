"""The cost that a reply tells is what its ledger entry says, exactly, or null while nothing is known to be charged."""

import json
import threading
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.db.models.functions import Now
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.models import Hold, LedgerEntry
from completions import tasks
from completions.charging.recovery import checkpoints
from completions.models import Completion
from gateway_project.db.pipelined_transaction import PipelinedConnection
from gateway_project.text import compact_json, dollars
from tests import factories, waiting
from tests.completions.rows import MESSAGES, ask, parsed
from tests.outage import with_the_database_unavailable
from tests.upstream import DONE, FINISH, ROLE, stream, usage, whole, words

STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}


def send(api, is_streamed, **fields):
    return ask(api, **(WITH_USAGE if is_streamed else {}), **fields)


def repeatable(api, fields):
    """Send these fields under an Idempotency-Key, which is always the same."""
    return api.post("/v1/chat/completions", fields, headers={"Idempotency-Key": "a"})


def replies(is_streamed, reported):
    """Return the script of an upstream that reports this usage, or none."""
    if not is_streamed:
        return whole(usage=reported)
    return stream(ROLE, words("Hello ", "you"), FINISH, usage(reported) if reported else b"", DONE)


def reported(prompt=9, completion=2, cached=0):
    details = {"cached_tokens": cached}
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": 0, "prompt_tokens_details": details}


def told(reply):
    """Return the cost that a reply tells, as a Decimal, read to its end; None where it is null."""
    *_, last = reply.getvalue().decode().removesuffix("\n\ndata: [DONE]\n\n").split("\n\n")
    return json.loads(last.removeprefix("data: "), parse_float=Decimal)["usage"]["cost"]


def charged(completion=None):
    """Return what the ledger says that a completion, or else the latest one, was charged: a Decimal of dollars."""
    entry = LedgerEntry.objects.get(reference=completion or Completion.objects.latest("id").pk)
    return Decimal(entry.metadata["costInDollars"])


@STREAMED
def test_a_reply_tells_its_exact_cost_as_a_number(api, large, upstream, is_streamed):
    factories.make_price(large, input="0.037", output="0.001")
    upstream.will(replies(is_streamed, reported()))
    assert told(send(api, is_streamed)) == charged() == Decimal("0.000000335")


def test_the_header_of_a_whole_reply_tells_the_same(api, large):
    reply = ask(api)
    assert reply.content.endswith(b'"cost":0.000057}}')
    assert reply["x-gateway-cost"] == "0.000057"


@STREAMED
def test_a_free_reply_costs_a_zero(api, large, upstream, is_streamed):
    factories.make_price(large, input="0", output="0")
    upstream.will(replies(is_streamed, reported()))
    assert told(send(api, is_streamed)) == charged() == 0


@STREAMED
def test_an_estimated_reply_tells_what_the_estimate_costs(api, large, upstream, is_streamed):
    upstream.will(replies(is_streamed, None))
    assert told(send(api, is_streamed)) == charged() == Decimal("0.00006")  # 5 and 3 tokens


@STREAMED
def test_a_reply_that_costs_more_than_was_held_tells_what_was_held(api, large, upstream, is_streamed):
    upstream.will(replies(is_streamed, reported(completion=50_000)))
    fields = {"model": "acme/large", "messages": MESSAGES, "max_tokens": 1, **(WITH_USAGE if is_streamed else {})}
    reply = repeatable(api, fields)
    cost = told(reply)
    held = dollars.format_plain(Hold.objects.get().amount_nanos)
    assert cost == charged() == Decimal(held) == Decimal(reply["x-gateway-max-cost"])
    assert told(repeatable(api, fields)) == cost


@STREAMED
@given(
    prompt=st.integers(0, 10_000), completion=st.integers(0, 10_000), cached=st.integers(0, 10_000), cap=st.integers(1, 4_000)
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_provider_reports_the_cost_is_what_is_charged(
    api, large, upstream, is_streamed, prompt, completion, cached, cap
):
    upstream.will(replies(is_streamed, reported(prompt, completion, min(cached, prompt))))
    reply = send(api, is_streamed, max_tokens=cap)
    assert told(reply) == charged() <= Decimal(reply["x-gateway-max-cost"])


@given(st.integers(0, 10**15 - 1))
def test_a_double_keeps_every_digit_of_a_cost_below_a_million_dollars(nanos):
    number = compact_json.dumps(compact_json.number(dollars.format_plain(nanos))).decode()
    assert Decimal(repr(json.loads(number))) * 10**9 == nanos


# --- Repetitions -----------------------------------------------------------------------------------------------------


@STREAMED
def test_a_repeated_reply_tells_what_the_first_was_charged(api, large, upstream, is_streamed):
    upstream.will(replies(is_streamed, reported()))
    fields = {"model": "acme/large", "messages": MESSAGES, **(WITH_USAGE if is_streamed else {})}
    assert told(repeatable(api, fields)) == charged()
    again = repeatable(api, fields)
    assert (again["Idempotent-Replayed"], told(again)) == ("true", charged())
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 1


ECHO = {
    "model": "demo/echo",
    "messages": [{"role": "user", "content": "Hi"}],
    "echo": {"reply": "four bytes " * 18},
    **WITH_USAGE,
}


def begin(api):
    """Begin a stream, whose process seems dead when 16 bytes of it were relayed, and let the sweeper charge these."""
    reply = repeatable(api, ECHO)
    assert reply.status_code == 200
    silence = checkpoints.ABANDONED_AFTER + timedelta(seconds=1)
    Completion.objects.filter(settlement=None).update(checkpointed_at=Now() - silence, relayed_bytes=16)
    assert tasks.release_expired_holds() == 1
    return reply


def test_a_run_after_a_death_tells_only_the_difference_that_it_is_charged(api, echo_model):
    begin(api)
    cost = told(repeatable(api, ECHO))
    first, second = Completion.objects.order_by("id")
    assert (cost, charged(first.pk) > 0) == (charged(second.pk), True)
    assert told(repeatable(api, ECHO)) == cost


# --- Where the charge is not known -----------------------------------------------------------------------------------


def test_a_stream_that_the_sweeper_had_charged_tells_no_cost(api, echo_model):
    assert told(begin(api)) is None
    recovered, corrected = LedgerEntry.objects.filter(type="USAGE_DEBIT").order_by("seq")
    assert [each.metadata["settlement"] for each in (recovered, corrected)] == ["recovered", "corrected"]


@pytest.mark.django_db(transaction=True)
def test_a_whole_reply_that_the_sweeper_had_released_tells_no_cost(api, large, upstream):
    is_released = threading.Event()
    upstream.will([is_released, *whole()])

    def release():
        waiting.until(lambda: upstream.requests)
        Hold.objects.update(expires_at=Now() - timedelta(seconds=1))
        tasks.release_expired_holds()
        connection.close()
        is_released.set()

    sweeper = threading.Thread(target=release)
    sweeper.start()
    reply = ask(api)
    sweeper.join()
    expired, corrected = Completion.objects.order_by("id")
    assert (expired.settlement, corrected.settlement) == ("expired", "corrected")
    assert (told(reply), "x-gateway-cost" in reply) == (None, False)
    assert LedgerEntry.objects.get(type="USAGE_DEBIT").reference == corrected.pk


@pytest.mark.django_db(transaction=True)
def test_a_stream_whose_charge_waits_for_the_database_tells_no_cost_and_its_repetition_does(
    api, echo_model, settings, tmp_path
):
    settings.OUTBOX_DIR = tmp_path / "outbox"
    reply = repeatable(api, ECHO)
    PipelinedConnection.close_all()
    body = with_the_database_unavailable(lambda: b"".join(reply.streaming_content))
    assert parsed(body)[-2]["usage"]["cost"] is None
    assert tasks.release_expired_holds() == 0  # drains the outbox
    again = repeatable(api, ECHO)
    assert (again["Idempotent-Replayed"], told(again)) == ("true", charged())
