"""A completion keeps its request id, and the status and reason of each attempt that failed."""

import pytest
from django.db import connection

from completions.models import Completion
from tests.completions.routes import add
from tests.completions.rows import ask, ask_streamed, events
from tests.upstream import ROLE, event, refusal, reply, stream, streamed, whole, words

STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def both(large, upstream, spare):
    """The model, with a second route."""
    add(large, spare)
    return large


@STREAMED
def test_a_completion_keeps_the_request_id_of_its_reply(api, large, upstream, is_streamed):
    upstream.will(streamed("Hello") if is_streamed else whole())
    answer = ask(api, stream=is_streamed)
    assert not is_streamed or events(answer)
    completion = Completion.objects.get()
    assert (completion.request_id, completion.failed_attempts) == (answer["x-request-id"], None)


@STREAMED
def test_a_completion_keeps_the_request_id_of_its_provider(api, large, upstream, is_streamed):
    upstream.will(reply(b"", status=503, x_request_id="first"), served(is_streamed, request_id="req_second"))
    answer = ask(api, stream=is_streamed)
    assert not is_streamed or events(answer)
    assert Completion.objects.get().provider_request_id == "req_second"


def test_the_id_of_a_generation_is_that_of_openrouters_bills(api, large, upstream):
    upstream.will(served(request_id="gen-1", header="x-generation-id"))
    assert ask(api).status_code == 200
    assert Completion.objects.get().provider_request_id == "gen-1"


@pytest.mark.parametrize("sent", ["a" * 101, "two words", "é", ""])
def test_an_id_of_a_provider_that_cannot_be_kept_is_left_out(api, large, upstream, sent):
    upstream.will(served(request_id=sent))
    assert ask(api).status_code == 200
    assert Completion.objects.get().provider_request_id is None


def test_a_refused_completion_keeps_the_request_id_of_the_refusal(api, large, upstream):
    upstream.will(refusal(400, "no", x_request_id="req_refused"))
    assert ask(api).status_code == 400
    assert Completion.objects.get().provider_request_id == "req_refused"


def served(is_streamed=False, *, request_id, header="request-id"):
    """Return a script of a reply with an id in its head."""
    head, *rest = streamed("Hello") if is_streamed else whole()
    start, end = head.split(b"\r\n", 1)
    return [start + f"\r\n{header}: {request_id}\r\n".encode() + end, *rest]


@STREAMED
def test_a_failed_completion_keeps_what_each_attempt_got(api, both, upstream, spare, is_streamed):
    upstream.will(refusal(503, "we are overloaded"))
    spare.will(refusal(401, "your key is wrong"))
    answer = ask(api, stream=is_streamed)
    assert answer.status_code == 503
    completion = Completion.objects.get()
    assert completion.request_id == answer["x-request-id"]
    assert completion.failed_attempts == [
        {"provider": "scripted", "status": 503, "reason": "we are overloaded"},
        {"provider": "spare", "status": 401, "reason": "your key is wrong"},
        {"provider": "scripted", "status": 503, "reason": "we are overloaded"},
    ]


def test_a_completion_that_another_attempt_served_keeps_the_first(api, both, upstream, spare):
    upstream.will(refusal(500, "we broke"))
    spare.will(whole())
    assert ask(api).status_code == 200
    assert Completion.objects.get().failed_attempts == [{"provider": "scripted", "status": 500, "reason": "we broke"}]


def test_a_stream_that_broke_off_keeps_why(api, large, upstream):
    upstream.will(stream(ROLE, words("Hello "), event({"error": {"message": "out of memory"}})))
    assert events(ask_streamed(api))[-1]["error"]["code"] == "upstream_error"
    [failed] = Completion.objects.get().failed_attempts
    assert (failed["provider"], failed["reason"]) == ("scripted", "InBandError: out of memory")


def test_what_a_provider_says_about_the_request_is_for_the_caller_only(api, large, upstream):
    upstream.will(refusal(400, "I will not write about my secret plan"))
    assert "secret plan" in ask(api).json()["error"]["message"]
    assert Completion.objects.get().failed_attempts == [{"provider": "scripted", "status": 400, "reason": ""}]


def test_reasons_are_bounded_and_one_line(api, large, upstream):
    upstream.will(refusal(503, "a\nb\x00c" + 10_000 * "x"))
    ask(api)
    reason = Completion.objects.get().failed_attempts[0]["reason"]
    assert reason.startswith("a bcx")
    assert len(reason) <= 300


def test_a_completion_is_found_by_its_request_id_and_a_keys_failures_by_an_index(api, large, upstream):
    upstream.will(refusal(503, "no"))
    answer = ask(api)
    found = Completion.objects.filter(request_id=answer["x-request-id"])
    failed = Completion.objects.filter(key_id=found.get().key_id, failed_attempts__isnull=False).order_by("-id")[:10]
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")  # preferred for small tables
        cursor.execute("DROP INDEX completions_by_key")  # preferred where all of a few completions failed
    assert "completions_by_request" in found.explain()
    assert "failed_completions_by_key" in failed.explain()
