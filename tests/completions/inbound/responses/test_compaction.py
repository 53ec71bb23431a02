"""Conversations are summed up by their model, and go on from the sealed summary, over HTTP."""

from typing import Any

import pytest

from completions.inbound.responses import compaction
from completions.models import StoredResponse
from tests import factories
from tests.chat import assert_error
from tests.completions.inbound.responses.requests import TOOL, events
from tests.completions.rows import assert_charged, assert_released
from tests.conftest import client_for
from tests.upstream import DONE, ROLE, chunk, refusal, stream, streamed, usage, whole, words

PATH, COMPACT = "/v1/responses", "/v1/responses/compact"
TRIGGER = {"type": "compaction_trigger"}
USER = {"type": "message", "role": "user", "content": "Name a city."}
CALL = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "3"}
CONVERSATION = [USER, {"role": "assistant", "content": "Rome"}, CALL, RESULT, {"role": "user", "content": "Why?"}]
OF_USER = [USER, {"type": "message", "role": "user", "content": "Why?"}]


@pytest.fixture(autouse=True)
def _model(large):
    large.function_calling = True
    large.save()


def post(api: Any, path: str = PATH, items: Any = "Hello", **fields: Any) -> Any:
    return api.post(path, {"model": "acme/large", "input": items, **fields})


def compacted(api: Any, upstream: Any, summary: str = "They spoke of Rome.") -> dict[str, Any]:
    """Return the item of a compaction."""
    upstream.will(whole(summary))
    reply = post(api, COMPACT, CONVERSATION)
    assert reply.status_code == 200, reply.content
    return reply.json()["output"][-1]


def test_a_conversation_is_summed_up_and_charged_as_a_completion(api, alice, upstream):
    upstream.will(whole("They spoke of Rome."))
    reply = post(api, COMPACT, CONVERSATION, instructions="Be brief.", tools=[TOOL], tool_choice="auto")
    body = reply.json()
    [completion] = alice.completions.all()
    *kept, item = body.pop("output")
    assert kept == OF_USER
    assert (item["type"], item.keys()) == ("compaction", {"id", "type", "encrypted_content"})
    assert "Rome" not in item["encrypted_content"]
    assert body == {
        "id": completion.pk,
        "object": "response.compaction",
        "created_at": int(completion.created_at.timestamp()),
        "model": "acme/large",
        "incomplete_details": None,
        "usage": {
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 11,
            "cost": 0.000057,
        },
    }
    sent = upstream.requests[0].body
    assert [message["role"] for message in sent["messages"]] == ["system", "user", "assistant", "tool", "user", "user"]
    assert (sent["messages"][-1]["content"], sent["tool_choice"]) == (compaction.PROMPT, "none")
    assert not StoredResponse.objects.exists()
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_the_next_request_has_the_summary_instead_of_the_conversation(api, upstream):
    item = compacted(api, upstream)
    upstream.will(whole("Because."))
    reply = post(api, PATH, [*OF_USER, item, {"role": "user", "content": "And now?"}])
    assert reply.status_code == 200
    told = [message["content"] for message in upstream.requests[-1].body["messages"]]
    assert (told[:2], told[3]) == (["Name a city.", "Why?"], "And now?")
    assert told[2].endswith("They spoke of Rome.")


def test_a_summary_can_be_summed_up_again(api, upstream):
    item = compacted(api, upstream)
    upstream.will(whole("Rome, again."))
    reply = post(api, COMPACT, [item, {"role": "user", "content": "More."}])
    assert [each["type"] for each in reply.json()["output"]] == ["message", "compaction"]
    assert "They spoke of Rome." in upstream.requests[-1].body["messages"][0]["content"]


def test_a_stored_conversation_is_summed_up_by_its_id(api, upstream):
    upstream.will(whole("Rome"))
    first = post(api, PATH, "Name a city.").json()
    upstream.will(whole("They spoke of Rome."))
    reply = api.post(COMPACT, {"model": "acme/large", "previous_response_id": first["id"]})
    assert reply.json()["output"][0]["content"] == [{"type": "input_text", "text": "Name a city."}]
    told = [message["content"] for message in upstream.requests[-1].body["messages"]]
    assert told == ["Name a city.", "Rome", compaction.PROMPT]


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_a_trigger_at_the_end_of_an_input_is_answered_with_one_item(api, alice, upstream, is_streamed):
    """As Codex compacts: github.com/openai/codex/pull/22809."""
    upstream.will(streamed("They spoke ", "of Rome.") if is_streamed else whole("They spoke of Rome."))
    reply = post(api, PATH, [*CONVERSATION, TRIGGER], stream=is_streamed, tools=[TOOL], text={"verbosity": "low"})
    if is_streamed:
        told = events(reply)
        named = [each["type"].removeprefix("response.") for each in told]
        assert named == ["created", "in_progress", "output_item.added", "output_item.done", "completed"]
        assert told[3]["item"] == told[4]["response"]["output"][0]
    response = told[-1]["response"] if is_streamed else reply.json()
    [item] = response["output"]
    assert (response["status"], response["store"], item["type"]) == ("completed", False, "compaction")
    assert "verbosity" not in upstream.requests[0].body
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)
    assert compaction.open_summary(alice.pk, item["encrypted_content"]).endswith("They spoke of Rome.")


def test_a_summary_that_is_cut_is_incomplete(api, upstream):
    upstream.will(whole("They spo", finish_reason="length"))
    assert post(api, COMPACT, CONVERSATION).json()["incomplete_details"] == {"reason": "max_output_tokens"}
    upstream.will(stream(ROLE, words("They spo"), chunk(finish_reason="length"), usage(), DONE))
    assert events(post(api, PATH, [USER, TRIGGER], stream=True))[-1]["type"] == "response.incomplete"


def test_no_summary_is_no_item(api, upstream):
    upstream.will(whole(""))
    assert post(api, COMPACT, CONVERSATION).json()["output"] == OF_USER


def test_a_compaction_that_fails_costs_nothing(api, alice, upstream):
    upstream.will(refusal(400))
    assert post(api, COMPACT, CONVERSATION).status_code == 400
    assert_released(alice)


def test_a_repetition_gets_the_same_summary(api, alice, upstream):
    upstream.will(whole("They spoke of Rome."))
    bodies = [
        api.post(COMPACT, {"model": "acme/large", "input": CONVERSATION}, headers={"Idempotency-Key": "a"}).content
        for _ in range(2)
    ]
    assert bodies[0] == bodies[1]
    assert len(upstream.requests) == 1


def test_a_large_conversation_is_summed_up(api, upstream):
    upstream.will(whole("Long."))
    long = {"type": "message", "role": "user", "content": "x" * 50_000}
    reply = post(api, COMPACT, [long])
    assert reply.json()["output"][0] == long
    assert [message["content"] for message in upstream.requests[0].body["messages"]] == ["x" * 50_000, compaction.PROMPT]


# --- What is refused --------------------------------------------------------------------------------------------------

ITEM = {"type": "compaction", "encrypted_content": "gAAAA"}
REFUSED: dict[str, tuple[str, Any, str]] = {
    "an item of another service": (PATH, [ITEM], "input[0].encrypted_content"),
    "a seal that was altered": (PATH, [USER, {**ITEM, "encrypted_content": "compacted.x"}], "input[1].encrypted_content"),
    "no seal": (PATH, [{"type": "compaction"}], "input[0].encrypted_content"),
    "no text": (PATH, [{**ITEM, "encrypted_content": 5}], "input[0].encrypted_content"),
    "an unknown member": (PATH, [{**ITEM, "summary": "x"}], "input[0].summary"),
    "a trigger in the middle": (PATH, [USER, TRIGGER, USER], "input[1]"),
    "two triggers": (COMPACT, [USER, TRIGGER], "input[1]"),
    "a trigger with more": (PATH, [USER, {**TRIGGER, "text": "x"}], "input[1].text"),
    "no items": (COMPACT, 5, "input"),
    "a wrong item": (COMPACT, [{"type": "mcp_call"}], "input[0].type"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_compacted_or_opened_is_refused_by_name(api, alice, upstream, case):
    path, items, param = REFUSED[case]
    assert_error(post(api, path, items), 400, "invalid_request_error", param)
    assert upstream.requests == []
    assert not alice.holds.exists()


@pytest.mark.parametrize("name", ["stream", "background"])
def test_a_compaction_is_replied_to_as_a_whole(api, name):
    assert_error(post(api, COMPACT, CONVERSATION, **{name: True}), 400, "invalid_request_error", name)
    assert_error(post(api, PATH, [USER, TRIGGER], background=True), 400, "invalid_request_error", "background")


def test_a_summary_is_for_its_account_alone(api, upstream):
    item = compacted(api, upstream)
    other = client_for(factories.make_key(factories.make_account("Bob", cents=1_000))[1])
    assert_error(post(other, PATH, [item]), 400, "invalid_request_error", "input[0].encrypted_content")


def test_an_input_has_so_many_summaries(api, upstream, monkeypatch):
    item = compacted(api, upstream)
    monkeypatch.setattr(compaction, "ITEMS_MAX", 2)
    upstream.will(whole())
    assert post(api, PATH, [item, item, USER]).status_code == 200
    assert_error(post(api, PATH, [item, item, item, USER]), 400, "invalid_request_error", "input[2]")


# --- When to compact --------------------------------------------------------------------------------------------------

# The field -> what the header of the reply names.
MANAGED: list[tuple[Any, str | None]] = [
    (None, None),
    ([], None),
    ([{"type": "compaction", "compact_threshold": 200_000}], None),
    ([{"type": "compaction", "compact_threshold": 5}], "context_management"),
    ([{"type": "compaction"}], "context_management"),
    ([{"type": "compaction", "compact_threshold": None}], "context_management"),
]
NOT_MANAGED = {
    "context_management": "auto",
    "context_management[0]": ["compaction"],
    "context_management[0].type": [{"type": "clear_tool_uses"}],
    "context_management[0].compact_threshold": [{"type": "compaction", "compact_threshold": 0}],
    "context_management[0].keep": [{"type": "compaction", "keep": 1}],
}


@pytest.mark.parametrize(("given", "named"), MANAGED)
def test_a_compaction_that_is_due_and_not_made_is_named(api, upstream, given, named):
    upstream.will(whole())
    reply = post(api, PATH, "Hello", context_management=given)
    assert (reply.status_code, reply.get("x-gateway-ignored-fields")) == (200, named)
    assert "context_management" not in upstream.requests[0].body


@pytest.mark.parametrize("param", NOT_MANAGED)
def test_what_does_not_say_when_to_compact_is_refused(api, param):
    assert_error(post(api, PATH, "Hello", context_management=NOT_MANAGED[param]), 400, "invalid_request_error", param)
