"""Responses that are stored: what goes on from them, reads them and deletes them, over HTTP. And what bounds them."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.ledger import audit
from billing.models import Account
from completions import tasks
from completions.charging import stored_responses
from completions.models import Completion, StoredResponse
from gateway_project import secretbox
from gateway_project.db import pool
from gateway_project.db.pipelined_transaction import PipelinedConnection
from gateway_project.web.bodies_in_flight import process_bodies
from tests import chat, factories
from tests.completions.inbound.responses.requests import PATH, TOOL, events, parsed
from tests.completions.rows import disconnect
from tests.conftest import client_for
from tests.ledger_audit import assert_ledger_is_consistent
from tests.outage import with_the_database_unavailable
from tests.plans import plan_of, repeat_completion, without_scans
from tests.upstream import DONE, ROLE, chunk, stream, streamed, usage, whole, words


@pytest.fixture(autouse=True)
def _model(large):
    large.function_calling = True
    large.save()


def ask(api: Any, text: Any = "Hello", headers: dict[str, str] | None = None, **fields: Any) -> Any:
    reply = api.post(PATH, {"model": "acme/large", "input": text, **fields}, headers=headers)
    assert reply.status_code == 200, reply.content
    return events(reply)[-1]["response"] if fields.get("stream") else reply.json()


def refused(api: Any, **fields: Any) -> Any:
    return api.post(PATH, {"model": "acme/large", "input": "Hello", **fields})


def sent(upstream: Any) -> Any:
    return upstream.requests[-1].body["messages"]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def stored_bytes(account: Account) -> int:
    account.refresh_from_db()
    return account.stored_response_bytes


def expire(**which: Any) -> None:
    StoredResponse.objects.filter(**which).update(expires_at=pool.database_time() - timedelta(seconds=1))


# --- Going on from a response -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_request_goes_on_from_a_stored_response_and_pays_for_its_whole_conversation(api, alice, upstream, is_streamed):
    upstream.will(*[streamed("Hello ", "you") if is_streamed else whole("Hello you")] * 3)
    first = ask(api, instructions="Be brief.", stream=is_streamed)
    assert (first["store"], first["previous_response_id"]) == (True, None)
    second = ask(api, "And now?", previous_response_id=first["id"], instructions="Be long.", stream=is_streamed)
    assert (second["store"], second["previous_response_id"]) == (True, first["id"])
    third = [{"role": "user", "content": [{"type": "input_text", "text": "Bye"}]}]
    ask(api, third, previous_response_id=second["id"], stream=is_streamed)
    assert sent(upstream) == [user("Hello"), assistant("Hello you"), user("And now?"), assistant("Hello you"), user("Bye")]
    # What is held, too, is what the same conversation holds when it is sent.
    estimates = list(Completion.objects.order_by("id").values_list("prompt_estimate", flat=True))
    assert estimates[2] > estimates[1] > 2
    assert audit.verify(alice.pk) == []


def test_a_hold_is_that_of_the_whole_conversation(api, upstream):
    upstream.will(whole("x" * 3_000))
    first = ask(api, "y" * 3_000)
    fields = {"model": "acme/large", "max_output_tokens": 10}
    named = api.post(f"{PATH}/quote", {**fields, "input": "Hello", "previous_response_id": first["id"]}).json()
    items = [{"role": "user", "content": "y" * 3_000}, *first["output"], {"role": "user", "content": "Hello"}]
    assert named == api.post(f"{PATH}/quote", {**fields, "input": items}).json()
    counted = api.post(f"{PATH}/input_tokens", {**fields, "input": "Hello", "previous_response_id": first["id"]}).json()
    assert counted == {"object": "response.input_tokens", "input_tokens": counted["input_tokens"]}
    assert counted == api.post(f"{PATH}/input_tokens", {**fields, "input": items}).json()
    assert counted["input_tokens"] > 1_000
    assert (Completion.objects.count(), len(upstream.requests)) == (1, 1)


def test_a_body_that_waits_is_restored_with_its_history(api, upstream):
    """A second attempt parses the bytes again, which have the history by then."""
    upstream.will(whole("Hello you"), [b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n"], whole("x"))
    first = ask(api, "y" * 10_000)
    ask(api, "And now?", previous_response_id=first["id"])
    assert sent(upstream) == [user("y" * 10_000), assistant("Hello you"), user("And now?")]
    assert len(upstream.requests) == 3


def test_a_tool_loop_goes_on_with_references_to_items(api, upstream):
    """So Vercel's AI SDK sends what a model called, unless it is told not to store."""
    call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
    message = {"role": "assistant", "content": "Let me see.", "tool_calls": [call]}
    upstream.will(whole(message=message, finish_reason="tool_calls"), *[whole("It is 3.")] * 2)
    question = {"role": "user", "content": "1 + 2?"}
    first = ask(api, [question], tools=[TOOL])
    said, called = first["output"]
    result = {"type": "function_call_output", "call_id": "call_1", "output": "3"}
    references = [{"type": "item_reference", "id": said["id"]}, {"id": called["id"]}]
    second = ask(api, [question, *references, result], tools=[TOOL])
    loop = [
        user("1 + 2?"),
        {"role": "assistant", "content": "Let me see.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "3"},
    ]
    assert sent(upstream) == loop
    # What was referred to is stored with what referred to it.
    assert api.delete(f"{PATH}/{first['id']}").status_code == 200
    ask(api, "Sure?", previous_response_id=second["id"], tools=[TOOL])
    assert sent(upstream) == [*loop, assistant("It is 3."), user("Sure?")]


def test_reasoning_is_stored_sealed_and_goes_back_to_its_provider(api, upstream):
    message = {"role": "assistant", "content": "Hello you", "reasoning_content": "Hm."}
    upstream.will(whole(message=message), whole("x"))
    first = ask(api)
    reasoning, _ = first["output"]
    assert "encrypted_content" not in reasoning
    read = api.get(f"{PATH}/{first['id']}?include[]=reasoning.encrypted_content").json()
    assert read["output"][0]["encrypted_content"].startswith("sealed.")
    assert read["output"][0] | {"encrypted_content": None} == reasoning | {"encrypted_content": None}
    ask(api, "Go on", previous_response_id=first["id"])
    assert sent(upstream)[1]["reasoning_content"] == "Hm."


@pytest.mark.parametrize("way", ["unknown", "of another account", "deleted", "expired", "not stored", "no id"])
def test_what_is_not_there_is_refused_and_nothing_is_held(api, alice, charlie, upstream, way):
    upstream.will(whole("Hello you"))
    response_id = ask(api, store=way != "not stored")["id"]
    asker = client_for(factories.make_key(charlie)[1]) if way == "of another account" else api
    if way == "expired":
        expire(pk=response_id)
    if way == "deleted":
        api.delete(f"{PATH}/{response_id}")
    named = {"unknown": f"chatcmpl-{'0' * 32}", "no id": "resp_1"}.get(way, response_id)
    reply = refused(asker, previous_response_id=named)
    error = chat.assert_error(reply, 400, "previous_response_not_found", "previous_response_id")
    assert error["message"].startswith("previous_response_id is unknown, deleted or has expired.")
    item = {"type": "item_reference", "id": f"msg_{named.removeprefix('chatcmpl-')}_0"}
    error = chat.assert_error(refused(asker, input=[user("a"), item]), 400, "invalid_request_error", "input[1]")
    assert error["message"].startswith(f"input[1] refers to {item['id']!r}, which is no item of a stored response.")
    path = f"{PATH}/{named}"
    for read in (asker.get(path), asker.delete(path), asker.get(f"{path}/input_items")):
        chat.assert_error(read, 404, "invalid_request_error", "id")
    assert Completion.objects.count() == len(upstream.requests) == 1
    assert audit.verify(alice.pk) == []


def test_a_request_goes_on_from_no_response_of_another_account(api, charlie, upstream):
    upstream.will(*[whole("Hello you")] * 2)
    response_id = ask(api)["id"]
    other = client_for(factories.make_key(charlie)[1])
    chat.assert_error(
        refused(other, previous_response_id=response_id), 400, "previous_response_not_found", "previous_response_id"
    )
    assert len(upstream.requests) == 1


def test_a_response_of_another_account_is_not_found(api, charlie, upstream):
    upstream.will(whole("Hello you"))
    path = f"{PATH}/{ask(api)['id']}"
    other = client_for(factories.make_key(charlie)[1])
    for reply in (other.get(path), other.get(f"{path}/input_items"), other.delete(path)):
        chat.assert_error(reply, 404, "invalid_request_error", "id")
    assert api.get(path).status_code == 200


def test_an_item_that_is_not_in_its_response_is_refused(api, upstream):
    upstream.will(whole("Hello you"))
    item_id = ask(api)["output"][0]["id"]
    for wrong in (f"{item_id[:-1]}1", f"rs_{item_id.removeprefix('msg_')}", f"{item_id}/../x", "\u00e9"):
        reply = refused(api, input=[{"type": "item_reference", "id": wrong}])
        chat.assert_error(reply, 400, "invalid_request_error", "input[0]")
    twice = [{"type": "item_reference", "id": item_id}] * 2  # as often as it is named, a long item would be as many bytes
    chat.assert_error(refused(api, input=twice), 400, "invalid_request_error", "input[1]")
    chat.assert_error(api.get(f"{PATH}/a%00"), 404, "invalid_request_error", "id")


def test_a_conversation_whose_middle_is_deleted_is_refused_and_its_end_can_be_read(api, upstream):
    upstream.will(*[whole("Hello you")] * 3)
    first = ask(api)
    second = ask(api, previous_response_id=first["id"])
    third = ask(api, previous_response_id=second["id"])
    assert api.delete(f"{PATH}/{second['id']}").json() == {"id": second["id"], "object": "response.deleted", "deleted": True}
    error = chat.assert_error(
        refused(api, previous_response_id=third["id"]), 400, "previous_response_not_found", "previous_response_id"
    )
    assert repr(second["id"]) in error["message"]
    assert api.get(f"{PATH}/{third['id']}").json() == third
    upstream.will(whole("x"))
    ask(api, previous_response_id=first["id"])


def test_wrong_fields_beside_an_earlier_response_are_named_as_the_caller_wrote_them(api, upstream):
    upstream.will(whole("Hello you"))
    first = ask(api)
    for fields, param in (
        ({"input": [user("a"), {"role": "user", "content": 1}]}, "input[1].content"),
        ({"input": 1}, "input"),
        ({"input": None}, "input"),
        ({"previous_response_id": 1}, "previous_response_id"),
        ({"input": [{"type": "item_reference", "id": 1}]}, "input[0].id"),
        ({"input": [{"type": "item_reference", "id": "msg_1", "more": 1}]}, "input[0].more"),
        ({"background": "yes"}, "background"),
    ):
        chat.assert_error(refused(api, **{"previous_response_id": first["id"], **fields}), 400, "invalid_request_error", param)
    assert Completion.objects.count() == 1


def test_a_key_that_may_not_use_the_model_may_not_through_an_earlier_response(api, alice, upstream, echo_model):
    upstream.will(whole("Hello you"))
    first = ask(api)
    limited = client_for(factories.make_key(alice, allowed_models=["demo/echo"])[1])
    chat.assert_error(refused(limited, previous_response_id=first["id"]), 404, "model_not_found", "model")
    assert ask(limited, model="demo/echo", previous_response_id=first["id"])["previous_response_id"] == first["id"]
    assert limited.delete(f"{PATH}/{first['id']}").status_code == 200


# --- Bounds -----------------------------------------------------------------------------------------------------------


def test_a_conversation_is_never_larger_than_a_body_may_be(api, upstream, settings):
    upstream.will(*[whole("Hello you")] * 2)
    first = ask(api, "y" * 3_000)
    second = ask(api, "z" * 3_000, previous_response_id=first["id"])
    for bound in (8_000, 5_000):  # it is too large with the new input, and by itself
        settings.REQUEST_BYTES_MAX = bound
        error = chat.assert_error(
            refused(api, input="y" * 2_000, previous_response_id=second["id"]),
            400,
            "invalid_request_error",
            "previous_response_id",
        )
        assert f"previous_response_id leads to a conversation of more than {bound} bytes" in error["message"]
    item = {"type": "item_reference", "id": second["output"][0]["id"]}
    chat.assert_error(refused(api, input=["y" * 4_800, item]), 400, "invalid_request_error", "input")
    settings.REQUEST_BYTES_MAX, settings.REQUEST_SYNTAX_MAX = 10_000, 60
    chat.assert_error(refused(api, previous_response_id=second["id"]), 400, "invalid_request_error", "previous_response_id")
    assert Completion.objects.count() == 2


def test_a_long_conversation_is_refused_before_it_is_read(api, upstream, settings):
    upstream.will(*[whole("x")] * 3)
    last = None
    for _ in range(3):
        last = ask(api, previous_response_id=last)["id"]
    settings.REQUEST_MESSAGES_MAX = 2
    error = chat.assert_error(refused(api, previous_response_id=last), 400, "invalid_request_error", "previous_response_id")
    assert "at most 2 responses" in error["message"]
    items = [{"type": "item_reference", "id": f"msg_{'0' * 32}_{number}"} for number in range(3)]
    chat.assert_error(refused(api, input=items), 400, "invalid_request_error", "input")


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_response_that_is_too_large_is_not_stored_and_says_so(api, alice, upstream, settings, is_streamed):
    settings.STORED_RESPONSE_BYTES_MAX = 2_000
    script = (lambda text: streamed(text)) if is_streamed else whole
    upstream.will(script("x"), script("x" * 2_000))
    assert ask(api, "y" * 2_000, stream=is_streamed, store=True)["store"] is False
    reply = ask(api, stream=is_streamed)
    assert (reply["store"], reply["status"]) == (False, "completed")
    assert (StoredResponse.objects.count(), stored_bytes(alice)) == (0, 0)


def test_the_oldest_responses_of_an_account_make_room(api, alice, charlie, upstream, settings):
    upstream.will(*[whole("Hello you")] * 8)
    other = client_for(factories.make_key(charlie)[1])
    kept = ask(other)
    ask(api)
    settings.STORED_RESPONSE_ACCOUNT_BYTES_MAX = stored_bytes(alice) * 9 // 2
    ids = [ask(api, f"Hello {number}")["id"] for number in range(6)]
    assert 0 < stored_bytes(alice) <= settings.STORED_RESPONSE_ACCOUNT_BYTES_MAX
    found = [api.get(f"{PATH}/{response_id}").status_code for response_id in ids]
    assert found == sorted(found, reverse=True)  # 404 for the oldest
    assert (found[0], found[-1]) == (404, 200)
    assert other.get(f"{PATH}/{kept['id']}").json() == kept
    assert_ledger_is_consistent()


def test_what_a_request_names_is_found_in_two_queries_however_long_the_conversation(api, upstream):
    upstream.will(*[whole("Hello you")] * 4)
    last = None
    for _ in range(3):
        last = ask(api, previous_response_id=last)["id"]
    with CaptureQueriesContext(connection) as queries:
        ask(api, previous_response_id=last)
    sql = [query["sql"].split()[0] for query in queries if "storedresponse" in query["sql"]]
    assert sql == ["WITH", "SELECT", "WITH"]  # the chain, its items, and the settlement


def test_among_many_responses_those_of_an_account_are_found_by_index(api, alice, upstream):
    """So they hold up neither its own settlements, which make room, nor those of others."""
    upstream.will(whole("Hello you"))
    response_id = ask(api)["id"]
    repeat_completion(response_id)
    Account.objects.bulk_create([Account(name=str(number)) for number in range(40)])
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO completions_storedresponse SELECT (jsonb_populate_record(original,"
            " jsonb_build_object('completion_id', completion.id, 'account_id', account.id))).*"
            " FROM completions_storedresponse original, completions_completion completion, billing_account account"
            " WHERE completion.id <> %s AND account.name = (abs(hashtext(completion.id)) %% 40)::text",
            [response_id],
        )
        cursor.execute("ANALYZE completions_storedresponse")
        cursor.execute("PREPARE evict AS " + stored_responses.evict_responses_statement({}).sql)
    excess = json.dumps([{"account_id": str(alice.pk), "bytes": 1}])
    evicting = f"EXECUTE evict('{excess}')"
    naming = stored_responses.CHAIN_SQL, {"id": response_id, "account": alice.pk, "length_max": 100}
    assert "Seq Scan on completions_storedresponse" not in plan_of(*naming)
    with without_scans():  # as batches are run
        evicted = plan_of(evicting)
    with connection.cursor() as cursor:
        cursor.execute("DEALLOCATE evict")
    assert "Seq Scan on completions_storedresponse" not in evicted
    assert "stored_responses_by_age" in evicted


def test_to_store_a_response_takes_no_round_trip_of_its_own(api, upstream):
    upstream.will(*[whole("Hello you")] * 3)
    ask(api)  # reads what is cached
    statements = []
    for store in (False, True):
        with CaptureQueriesContext(connection) as queries:
            ask(api, store=store)
        statements.append([query["sql"] for query in queries])
    assert len(statements[0]) + 1 == len(statements[1])  # one more statement of the same batch
    [more] = [sql for sql in statements[1] if "storedresponse" in sql]
    assert "INSERT INTO completions_storedresponse" in more


# --- What is stored ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("size", [10, 100_000], ids=["in the batch", "by itself"])
def test_a_response_is_read_as_it_was_replied(api, alice, upstream, is_streamed, size):
    upstream.will(streamed("Hello ", "you") if is_streamed else whole("Hello you"))
    reply = ask(api, "y" * size, stream=is_streamed, metadata={"team": "x"}, tools=[TOOL])
    assert api.get(f"{PATH}/{reply['id']}").json() == reply
    row = StoredResponse.objects.get()
    assert stored_bytes(alice) == row.stored_bytes == sum(len(getattr(row, name)) for name in stored_responses.TEXTS)
    assert audit.verify(alice.pk) == []


def test_what_is_stored_is_encrypted_and_is_nothing_in_another_account(api, charlie, upstream):
    upstream.will(whole("Hello you"))
    response_id = ask(api, "A secret")["id"]
    row = StoredResponse.objects.get()
    for name in stored_responses.TEXTS:
        assert getattr(row, name).startswith("gAAAA")
    StoredResponse.objects.update(account=charlie)
    reply = client_for(factories.make_key(charlie)[1]).get(f"{PATH}/{response_id}")
    chat.assert_error(reply, 409, "reply_unreadable")
    with pytest.raises(secretbox.Unreadable):
        secretbox.decrypt_bytes(row.sealed_input or "", purpose=f"response:{charlie.pk}")


def test_the_items_of_an_input_are_listed_page_by_page(api, upstream):
    upstream.will(whole("Hello you"))
    response_id = ask(api, [user("a"), {**user("b"), "id": "msg_b"}, user("c")])["id"]
    name = response_id.removeprefix("chatcmpl-")
    path = f"{PATH}/{response_id}/input_items"
    ids = [f"item_{name}_2", "msg_b", f"item_{name}_0"]
    page = api.get(path).json()
    assert [item["id"] for item in page["data"]] == ids
    assert page == {"object": "list", "data": page["data"], "first_id": ids[0], "last_id": ids[2], "has_more": False}
    page = api.get(f"{path}?limit=1&order=asc&after=item_{name}_0").json()
    assert (page["data"], page["has_more"]) == ([{"role": "user", "content": "b", "id": "msg_b"}], True)
    for wrong in ("limit=0", "limit=101", "limit=x", "order=up", "after=x"):
        chat.assert_error(api.get(f"{path}?{wrong}"), 400, "invalid_request_error", wrong.partition("=")[0])
    for wrong in ("include=x", "stream=true"):
        chat.assert_error(api.get(f"{PATH}/{response_id}?{wrong}"), 400, "invalid_request_error", wrong.partition("=")[0])


def test_a_text_is_listed_as_a_message(api, upstream):
    upstream.will(whole("Hello you"))
    response_id = ask(api)["id"]
    [item] = api.get(f"{PATH}/{response_id}/input_items").json()["data"]
    assert (item["role"], item["content"]) == ("user", [{"type": "input_text", "text": "Hello"}])


def test_a_stream_whose_client_left_is_stored_when_it_came_to_its_end(api, alice, upstream):
    upstream.will(streamed("Hello ", "you"))
    reply = api.post(PATH, {"model": "acme/large", "input": "Hello", "stream": True})
    next(iter(reply.streaming_content))
    disconnect(reply)
    [row] = StoredResponse.objects.all()
    read = api.get(f"{PATH}/{row.pk}").json()
    assert (read["status"], read["output"][0]["content"][0]["text"]) == ("completed", "Hello you")
    assert Completion.objects.get().settlement == "reported"


def test_a_stream_that_breaks_off_is_charged_and_not_stored(api, alice, upstream):
    upstream.will(stream(ROLE, words("Hel"), "CLOSE"))
    reply = api.post(PATH, {"model": "acme/large", "input": "Hello", "stream": True})
    last = events(reply)[-1]["response"]
    assert (last["status"], last["store"]) == ("failed", False)
    assert Completion.objects.get().settlement == "partial"
    assert not StoredResponse.objects.exists()
    assert audit.verify(alice.pk) == []


def test_a_cut_reply_is_stored_as_it_is(api, upstream):
    upstream.will(stream(ROLE, words("Hel"), chunk(finish_reason="length"), usage(), DONE))
    reply = ask(api, stream=True)
    assert api.get(f"{PATH}/{reply['id']}").json() == reply
    assert reply["status"] == "incomplete"


# --- Who keeps none ---------------------------------------------------------------------------------------------------


def test_an_account_that_keeps_none_stores_and_reads_none(api, alice, upstream):
    upstream.will(*[whole("Hello you")] * 2)
    before = ask(api)["id"]
    Account.objects.filter(pk=alice.pk).update(keeps_responses=False)
    assert ask(api, store=True)["store"] is False
    assert [row.pk for row in StoredResponse.objects.all()] == [before]
    chat.assert_error(api.get(f"{PATH}/{before}"), 404, "invalid_request_error", "id")
    chat.assert_error(refused(api, previous_response_id=before), 400, "previous_response_not_found", "previous_response_id")
    assert tasks.forget_stored_responses() == 1
    assert (StoredResponse.objects.count(), stored_bytes(alice)) == (0, 0)


def test_an_account_that_forbids_it_while_a_request_runs_stores_nothing(api, alice, upstream):
    upstream.will(streamed("Hello ", "you"))
    reply = api.post(PATH, {"model": "acme/large", "input": "Hello", "stream": True})
    Account.objects.filter(pk=alice.pk).update(keeps_responses=False)
    events(reply)
    assert not StoredResponse.objects.exists()
    assert audit.verify(alice.pk) == []


def test_a_gateway_that_keeps_none_stores_and_reads_none(api, alice, upstream, settings):
    upstream.will(*[whole("Hello you")] * 2)
    before = ask(api)["id"]
    settings.STORED_RESPONSE_DAYS = 0
    assert ask(api, store=True)["store"] is False
    chat.assert_error(api.get(f"{PATH}/{before}"), 404, "invalid_request_error", "id")
    assert tasks.forget_stored_responses() == 1
    assert (StoredResponse.objects.count(), stored_bytes(alice)) == (0, 0)


def test_responses_are_deleted_when_they_expire(api, alice, upstream, settings):
    settings.STORED_RESPONSE_DAYS = 2
    upstream.will(*[whole("Hello you")] * 2)
    old, new = ask(api)["id"], ask(api)["id"]
    [row] = StoredResponse.objects.filter(pk=old)
    assert timedelta(days=2) - timedelta(hours=1) < row.expires_at - pool.database_time() <= timedelta(days=2)
    expire(pk=old)
    assert tasks.forget_stored_responses() == 1
    assert [row.pk for row in StoredResponse.objects.all()] == [new]
    assert stored_bytes(alice) == StoredResponse.objects.get().stored_bytes
    assert tasks.forget_stored_responses() == 0


# --- Limits and money -------------------------------------------------------------------------------------------------


def test_reads_of_stored_responses_count_as_reads_of_the_key(api, upstream, settings):
    upstream.will(whole("Hello you"))
    response_id = ask(api)["id"]
    settings.KEY_READS_PER_MINUTE = 2
    fields = {"model": "acme/large", "input": "Hello"}
    assert [api.get(f"{PATH}/{response_id}").status_code, api.post(f"{PATH}/input_tokens", fields).status_code] == [200, 200]
    for reply in (api.get(f"{PATH}/{response_id}"), api.delete(f"{PATH}/{response_id}")):
        chat.assert_error(reply, 429, "rate_limit_exceeded")
    assert StoredResponse.objects.exists()


def test_a_repetition_under_an_idempotency_key_is_stored_once(api, upstream):
    upstream.will(whole("Hello you"))
    replies = [ask(api, headers={"Idempotency-Key": "a"}) for _ in range(2)]
    assert replies[0] == replies[1]
    assert StoredResponse.objects.count() == len(upstream.requests) == 1


def test_a_repetition_gets_its_reply_although_what_it_went_on_from_is_deleted(api, alice, upstream):
    upstream.will(*[whole("Hello you")] * 2)
    first = ask(api)["id"]
    keyed = {"Idempotency-Key": "a"}
    reply = ask(api, "And now?", headers=keyed, previous_response_id=first)
    api.delete(f"{PATH}/{first}")
    assert ask(api, "And now?", headers=keyed, previous_response_id=first) == reply
    other = {"model": "acme/large", "input": "Another", "previous_response_id": first}
    chat.assert_error(api.post(PATH, other, headers=keyed), 400, "invalid_request_error", "Idempotency-Key")
    chat.assert_error(api.post(PATH, other), 400, "previous_response_not_found", "previous_response_id")
    assert (len(upstream.requests), Completion.objects.count()) == (2, 2)


def test_a_repetition_whose_request_cannot_be_resolved_is_refused_and_counted_like_any(api, alice, upstream, settings):
    upstream.will(*[whole("Hello you")] * 2)
    first = ask(api)["id"]
    body, keyed = {"model": "acme/large", "input": "And now?", "previous_response_id": first}, {"Idempotency-Key": "a"}
    assert api.post(PATH, body, headers=keyed).status_code == 200
    other = client_for(factories.make_key(alice, allowed_models=["demo/echo"])[1])
    chat.assert_error(other.post(PATH, body, headers=keyed), 404, "model_not_found", "model")
    api.delete(f"{PATH}/{first}")
    chat.assert_error(other.post(PATH, body, headers=keyed), 404, "model_not_found", "model")
    settings.KEY_READS_PER_MINUTE = 2
    assert [api.post(PATH, body, headers=keyed).status_code for _ in range(4)] == [200, 200, 429, 429]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_large_input_counts_among_the_bytes_in_flight_until_it_is_stored(api, upstream, is_streamed):
    counted = []
    upstream.will([lambda: counted.append(process_bodies.total_bytes), *(streamed("x", "y") if is_streamed else whole("x"))])
    reply = api.post(PATH, {"model": "acme/large", "input": "y" * 100_000, "stream": is_streamed})
    if is_streamed:
        counted.append(process_bodies.total_bytes)
        events(reply)
        disconnect(reply)
    assert min(counted) > 100_000 * 4 // 3
    assert process_bodies.total_bytes == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("echo_model")
@pytest.mark.parametrize("size", [10, 100_000], ids=["in the outbox", "not at all"])
def test_a_response_that_ends_in_an_outage_is_charged_and_stored_if_it_is_small(api, alice, settings, tmp_path, size):
    settings.OUTBOX_DIR = tmp_path / "outbox"
    fields = {"model": "demo/echo", "input": "y" * size, "stream": True, "echo": {"reply": "four bytes"}}
    reply = api.post(PATH, fields)
    PipelinedConnection.close_all()
    response = parsed(with_the_database_unavailable(lambda: b"".join(reply.streaming_content)))[-1]["response"]
    assert (response["status"], response["usage"]["cost"]) == ("completed", None)
    assert "four bytes" not in next(settings.OUTBOX_DIR.iterdir()).read_text()
    assert not StoredResponse.objects.exists()
    assert tasks.release_expired_holds() == 0
    assert Completion.objects.get().settlement == "reported"
    read = api.get(f"{PATH}/{response['id']}").status_code
    assert (read, stored_bytes(alice) > 0) == ((200, True) if size == 10 else (404, False))
    assert audit.verify(alice.pk) == []


def test_chat_completions_store_nothing(api, upstream):
    upstream.will(whole("Hello you"))
    assert api.post("/v1/chat/completions", {"model": "acme/large", "messages": [user("a")], "store": True}).status_code == 200
    assert not StoredResponse.objects.exists()
