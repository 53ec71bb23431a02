"""Responses with ``background: true``, over HTTP: they are answered at once, run on, and are read when they are there.

The test client runs what the server runs after it has sent a reply before it returns the reply.
"""

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.models.functions import Now

from billing.ledger import audit
from billing.models import Account, Hold
from completions import tasks
from completions.charging import stored_responses
from completions.inbound.responses import keeping
from completions.models import Completion, StoredResponse
from completions.relay.slots import process_slots
from tests import chat, factories
from tests.cases import raising
from tests.completions.admitted import admit
from tests.completions.inbound.responses.requests import PATH
from tests.completions.rows import assert_charged, assert_released
from tests.conftest import client_for
from tests.upstream import refusal, whole

pytestmark = pytest.mark.usefixtures("large")


def begin(api: Any, headers: dict[str, str] | None = None, **fields: Any) -> Any:
    return api.post(PATH, {"model": "acme/large", "input": "Hello", "background": True, **fields}, headers=headers)


def test_it_is_answered_at_once_and_read_when_it_is_there(api, alice, upstream):
    upstream.will(whole("Hello you"), whole("x"))
    reply = begin(api, metadata={"team": "x"})
    queued = reply.json()
    assert (reply.status_code, queued["status"], queued["background"], queued["store"]) == (200, "queued", True, True)
    assert (queued["output"], queued["usage"], queued["metadata"]) == ([], None, {"team": "x"})
    read = api.get(f"{PATH}/{queued['id']}").json()
    assert (read["status"], read["usage"]["cost"]) == ("completed", 0.000057)
    assert read["output"][0]["content"][0]["text"] == "Hello you"
    assert {**queued, **{name: read[name] for name in ("status", "output", "usage", "model")}} == read
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)
    assert alice.stored_response_bytes == StoredResponse.objects.get().stored_bytes > 0
    assert process_slots.taken == 0
    after = api.post(PATH, {"model": "acme/large", "input": "And now?", "previous_response_id": queued["id"]})
    assert after.status_code == 200
    assert [each["content"] for each in upstream.requests[-1].body["messages"]] == ["Hello", "Hello you", "And now?"]


def test_a_large_one_is_written_by_itself(api, alice, upstream):
    upstream.will(whole("Hello you"))
    response_id = begin(api, input="y" * 100_000).json()["id"]
    assert api.get(f"{PATH}/{response_id}").json()["status"] == "completed"
    [item] = api.get(f"{PATH}/{response_id}/input_items").json()["data"]
    assert item["content"][0]["text"] == "y" * 100_000
    assert audit.verify(alice.pk) == []


def test_a_large_one_that_cannot_be_written_by_itself_is_stored_with_its_charge(api, alice, upstream, monkeypatch):
    monkeypatch.setattr(stored_responses, "_write", raising(OperationalError("the database is unavailable")))
    upstream.will(whole("Hello you"))
    response_id = begin(api, input="y" * 100_000).json()["id"]
    read = api.get(f"{PATH}/{response_id}").json()
    assert (read["status"], read["output"][0]["content"][0]["text"]) == ("completed", "Hello you")
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)
    assert audit.verify(alice.pk) == []


def test_one_whose_provider_fails_has_failed_and_costs_nothing(api, alice, upstream):
    upstream.will(*[refusal(400, "no such thing")] * 3)
    response_id = begin(api).json()["id"]
    read = api.get(f"{PATH}/{response_id}").json()
    assert (read["status"], read["error"]["code"], read["output"], read["store"]) == ("failed", "server_error", [], False)
    assert_released(alice)
    error = api.post(PATH, {"model": "acme/large", "input": "x", "previous_response_id": response_id})
    chat.assert_error(error, 400, "previous_response_not_found", "previous_response_id")
    chat.assert_error(api.get(f"{PATH}/{response_id}/input_items"), 404, "invalid_request_error", "id")
    assert process_slots.taken == 0


def test_one_that_failed_takes_little_room_and_is_kept_for_an_hour(api, alice, upstream):
    upstream.will(*[refusal(400, "no such thing")] * 3)
    response_id = begin(api, instructions="y" * 50_000).json()["id"]
    read = api.get(f"{PATH}/{response_id}").json()
    assert (read["status"], read["instructions"]) == ("failed", None)
    stored = StoredResponse.objects.get()
    assert len(stored.sealed_reply) < 10_000
    assert stored.expires_at - stored.completion.created_at < timedelta(hours=1, minutes=1)


def fail(api: Any, upstream: Any, **fields: Any) -> str:
    upstream.will(refusal(400, "no such thing"))
    return begin(api, **fields).json()["id"]


def cancel(api: Any, upstream: Any, **fields: Any) -> str:
    def give_up() -> None:
        api.post(f"{PATH}/{Completion.objects.latest('created_at').pk}/cancel")

    upstream.will([give_up, *whole("Hello you")])
    return begin(api, **fields).json()["id"]


def grow_too_large(api: Any, upstream: Any, **fields: Any) -> str:
    upstream.will(whole("x" * 100_000))
    return begin(api, **fields).json()["id"]


UNSTORED = {"failed": fail, "cancelled": cancel, "too large": grow_too_large}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("bound", ["rows", "bytes"])
@pytest.mark.parametrize("end", UNSTORED)
def test_those_that_ended_without_a_reply_have_a_bound_and_the_oldest_make_room(
    api, charlie, upstream, settings, monkeypatch, end, bound
):
    """A failed one costs nothing, so what it leaves may not grow with how many there are."""
    settings.STORED_RESPONSE_BYTES_MAX = 90_000
    upstream.will(whole("Hello you"), refusal(400, "no such thing"))
    kept = begin(api).json()["id"]
    other = client_for(factories.make_key(charlie)[1])
    of_another = begin(other).json()["id"]
    ended = [UNSTORED[end](api, upstream, instructions="y" * 5_000)]
    room = {"rows": 3, "bytes": 7 * len(StoredResponse.objects.get(pk=ended[0]).sealed_reply) // 2}
    monkeypatch.setattr(stored_responses, f"_UNREPLIED_{bound.upper()}_MAX", room[bound])
    ended += [UNSTORED[end](api, upstream, instructions="y" * 5_000) for _ in range(4)]
    upstream.will(whole("Hello you"))
    last = begin(api).json()["id"]
    found = set(StoredResponse.objects.values_list("completion_id", flat=True))
    assert found == {kept, of_another, *ended[-3:], last}
    assert [api.get(f"{PATH}/{response_id}").status_code for response_id in ended] == [404, 404, 200, 200, 200]
    assert audit.verify() == []


@pytest.mark.django_db(transaction=True)
def test_one_that_runs_is_in_no_bound(api, upstream, monkeypatch):
    """It has a hold, and counts among the requests in flight."""
    monkeypatch.setattr(stored_responses, "_UNREPLIED_ROWS_MAX", 0)
    states = []

    def begin_another() -> None:
        running = Completion.objects.get(settlement=None).pk
        begin(api)
        states.append(api.get(f"{PATH}/{running}").json()["status"])

    upstream.will([begin_another, *whole("Hello you")], whole("Hello you"))
    first = begin(api).json()["id"]
    assert (states, api.get(f"{PATH}/{first}").json()["status"]) == (["in_progress"], "completed")


def test_what_ended_without_a_reply_is_found_by_index_among_all_that_is_stored(api, alice, upstream, monkeypatch):
    fail(api, upstream)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("EXPLAIN " + stored_responses.EVICT_UNREPLIED_SQL, stored_responses.unreplied_bounds(alice.pk))
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "unreplied_responses_by_age" in plan


def test_one_that_ended_is_kept_as_long_as_any(api, upstream):
    upstream.will(whole("Hello you"))
    begin(api)
    assert StoredResponse.objects.get().expires_at - Completion.objects.get().created_at > timedelta(days=29)


def test_one_whose_reply_is_too_large_is_charged_and_has_failed(api, alice, upstream, settings):
    settings.STORED_RESPONSE_BYTES_MAX = 1_000
    upstream.will(whole("x" * 1_000))
    response_id = begin(api).json()["id"]
    read = api.get(f"{PATH}/{response_id}").json()
    assert (read["status"], "too large to be stored" in read["error"]["message"]) == ("failed", True)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_one_whose_process_died_has_failed(api, alice, echo_model):
    key, _ = factories.make_key(alice)
    completion = admit(key).completion
    reply = keeping.as_reply({"id": completion.id, "status": "queued", "error": None, "store": True})
    stored_responses.begin(completion.id, alice.pk, None, reply)
    assert api.get(f"{PATH}/{completion.id}").json()["status"] == "in_progress"
    Hold.objects.update(expires_at=Now() - timedelta(seconds=1))
    assert tasks.release_expired_holds() == 1
    read = api.get(f"{PATH}/{completion.id}").json()
    assert (read["status"], read["error"]["code"], read["store"]) == ("failed", "server_error", False)
    assert audit.verify(alice.pk) == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("act", ["cancelled", "deleted"])
def test_one_that_is_given_up_while_it_runs_is_charged_and_not_stored(api, alice, upstream, act):
    """Its provider charges for it, whoever waits for it."""
    told = []

    def give_up() -> None:
        path = f"{PATH}/{Completion.objects.get().pk}"
        told.append(api.get(path).json()["status"])
        reply = api.post(f"{path}/cancel") if act == "cancelled" else api.delete(path)
        told.append(reply.json()["status"] if act == "cancelled" else reply.status_code)

    upstream.will([give_up, *whole("Hello you")])
    response_id = begin(api).json()["id"]
    assert told == ["in_progress", "cancelled" if act == "cancelled" else 200]
    read = api.get(f"{PATH}/{response_id}")
    if act == "cancelled":
        assert (read.json()["status"], read.json()["output"]) == ("cancelled", [])
        assert api.post(f"{PATH}/{response_id}/cancel").json() == read.json()
    else:
        chat.assert_error(read, 404, "invalid_request_error", "id")
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)
    assert alice.stored_response_bytes == 0
    assert "Hello you" not in str(list(StoredResponse.objects.values()))


def test_what_has_ended_or_runs_in_no_background_is_not_cancelled(api, charlie, upstream):
    upstream.will(*[whole("Hello you")] * 2)
    ended = begin(api).json()["id"]
    assert api.post(f"{PATH}/{ended}/cancel").json() == api.get(f"{PATH}/{ended}").json()
    other = client_for(factories.make_key(charlie)[1])
    chat.assert_error(other.post(f"{PATH}/{ended}/cancel"), 404, "invalid_request_error", "id")
    usual = api.post(PATH, {"model": "acme/large", "input": "Hello"}).json()["id"]
    chat.assert_error(api.post(f"{PATH}/{usual}/cancel"), 400, "invalid_request_error", "id")


def test_what_could_not_be_stored_does_not_run(api, alice, upstream, settings):
    chat.assert_error(begin(api, store=False), 400, "invalid_request_error", "background")
    chat.assert_error(begin(api, stream=True), 400, "invalid_request_error", "stream")
    image = {"type": "input_image", "image_url": "https://example.com/a.png"}
    seen = begin(api, input=[{"role": "user", "content": [image]}])
    chat.assert_error(seen, 400, "invalid_request_error", "background")
    settings.STORED_RESPONSE_BYTES_MAX = 100
    chat.assert_error(begin(api, input="y" * 100), 400, "invalid_request_error", "background")
    settings.STORED_RESPONSE_DAYS = 0
    chat.assert_error(begin(api), 400, "invalid_request_error", "background")
    settings.STORED_RESPONSE_DAYS = 30
    assert not Completion.objects.exists()
    Account.objects.filter(pk=alice.pk).update(keeps_responses=False)
    chat.assert_error(begin(api), 400, "invalid_request_error", "background")
    assert Hold.objects.get().state == Hold.State.RELEASED
    assert (upstream.requests, StoredResponse.objects.count()) == ([], 0)


@pytest.mark.django_db(transaction=True)
def test_a_repetition_under_an_idempotency_key_gets_the_same_reply_at_any_time(api, alice, upstream):
    """While it runs, and when it is there: the id is what a caller lacks that got no reply."""
    keyed = {"Idempotency-Key": "a"}
    while_it_ran = []

    def repeat() -> None:
        while_it_ran.append(begin(api, headers=keyed))
        api.post(f"{PATH}/{Completion.objects.get().pk}/cancel")

    upstream.will([repeat, *whole("Hello you")])
    queued = begin(api, headers=keyed)
    for again in (*while_it_ran, begin(api, headers=keyed)):
        assert (again.status_code, again.content, again["Idempotent-Replayed"]) == (200, queued.content, "true")
    assert (len(while_it_ran), len(upstream.requests)) == (1, 1)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_one_that_failed_runs_again_under_its_idempotency_key(api, alice, upstream):
    upstream.will(refusal(400, "no such thing"), whole("Hello you"))
    keyed = {"Idempotency-Key": "a"}
    failed, again = (begin(api, headers=keyed).json()["id"] for _ in range(2))
    statuses = [api.get(f"{PATH}/{response_id}").json()["status"] for response_id in (failed, again)]
    assert statuses == ["failed", "completed"]
    alice.refresh_from_db()
    assert audit.verify(alice.pk) == []


def test_first_answers_of_an_account_take_no_more_room_than_there_is(api, alice, upstream, settings):
    upstream.will(*[whole("Hello you")] * 4)
    begin(api, headers={"Idempotency-Key": "0"})
    alice.refresh_from_db()
    settings.IDEMPOTENT_ACCOUNT_BYTES_MAX = alice.stored_reply_bytes * 5 // 2
    for number in range(1, 4):
        begin(api, headers={"Idempotency-Key": str(number)})
    alice.refresh_from_db()
    assert 0 < alice.stored_reply_bytes <= settings.IDEMPOTENT_ACCOUNT_BYTES_MAX
    assert audit.verify(alice.pk) == []


@pytest.mark.django_db(transaction=True)
def test_one_that_ends_unstored_makes_no_other_response_go(api, alice, upstream, settings):
    def delete_the_running_one() -> None:
        api.delete(f"{PATH}/{Completion.objects.get(settlement=None).pk}")

    upstream.will(whole("Hello you"), [delete_the_running_one, *whole("Hello you")])
    kept = begin(api).json()["id"]
    alice.refresh_from_db()
    settings.STORED_RESPONSE_ACCOUNT_BYTES_MAX = alice.stored_response_bytes * 3 // 2
    begin(api)
    assert StoredResponse.objects.get().pk == kept
    assert audit.verify(alice.pk) == []
