"""/dashboard/requests/: what members see of the account's past requests, and of those that were refused."""

import csv
import html
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.accounts import list_forms
from billing.models import Hold, LedgerEntry
from completions.history import files, reading
from completions.models import Completion, Price
from gateway_project.activity.models import Activity
from keys.models import RefusedRequest
from keys.refusal_history import collector
from tests import factories
from tests.completions.routes import add
from tests.completions.rows import ask, ask_streamed, begin, events
from tests.conftest import client_for
from tests.pages.conftest import key, other_owner, owner, owner_of, signed_in  # noqa: F401  fixtures
from tests.upstream import CLOSE, ROLE, USAGE, refusal, stream, streamed, whole, words

LIST = "/dashboard/requests/"


def text(reply, status=200):
    """Return the page's text without markup."""
    assert reply.status_code == status, reply.content
    shown = re.sub(r"<[^>]+>", " ", re.sub(r"<form.*?</form>", "", reply.content.decode(), flags=re.DOTALL))
    return " ".join(html.unescape(shown).split())


def listed(client, **filters):
    """Return the ids that the list shows, in its order."""
    reply = client.get(LIST, filters)
    assert reply.status_code == 200, reply.content
    return [row["completion"].pk for row in reply.context["rows"]]


def page_of(client, completion):
    return text(client.get(f"{LIST}{completion.pk}/"))


@pytest.fixture
def past(alice, large):
    """Make completions of the past: ``past(key, minutes_ago, ...)`` returns one, settled unless told."""
    price = Price.objects.get(model=large)
    now = datetime.now(UTC)

    def make(key, minutes_ago=0, *, settlement="reported", **fields):  # noqa: F811
        at = now - timedelta(minutes=minutes_ago)
        columns = {
            "account": alice,
            "key": key,
            "model": large,
            "price": price,
            "provider_id": "scripted",
            "created_at": at,
            "is_stream": False,
            "spending_day": at.date(),
            "counted_tokens": 11,
        }
        if settlement:
            columns |= {
                "settlement": settlement,
                "finished_at": at,
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "cost_nanos": 57_000,
            }
        made = Completion.objects.create(
            id=f"{Completion.least_id(at)}{Completion.objects.count():020x}", **{**columns, **fields}
        )
        state = Hold.State.SETTLED if settlement else Hold.State.HELD
        hold = {"state": state, "settled_nanos": 57_000 if settlement else None, "resolved_at": at if settlement else None}
        Hold.objects.create(reference=made.pk, account=alice, amount_nanos=90_000, created_at=at, expires_at=now, **hold)
        return made

    return make


# --- The list ------------------------------------------------------------------------------------------------------


def test_a_request_is_listed_as_soon_as_it_is_answered(api, alice, owner, large):  # noqa: F811
    reply = ask(api, user="u-1")
    page = text(owner.get(LIST))
    assert re.search(r"acme/large succeeded scripted test for u-1 – [\d.]+ s 11 \$0\.000057", page)
    assert f'href="{LIST}{reply.json()["id"]}/"' in owner.get(LIST).content.decode()


def test_a_row_has_seconds_the_provider_and_the_latency(owner, key, past):  # noqa: F811
    at = past(key, 1, is_stream=True, first_token_ms=420, streamed_ms=1_000).created_at
    Completion.objects.update(finished_at=at + timedelta(seconds=1, milliseconds=500))
    page = text(owner.get(LIST))
    assert f"{at:%H:%M:%S} UTC acme/large succeeded scripted laptop 0.42 s 1.50 s 11 $0.000057" in page


def test_the_filter_of_models_offers_those_that_the_account_used(api, owner, bob, large, echo_model):  # noqa: F811
    def offered(**filters):
        select = owner.get(LIST, filters).content.decode().partition('<select name="model"')[2].partition("</select>")[0]
        return re.findall(r'<option value="([^"]*)"( selected)?', select)

    assert offered() == [("", " selected")]
    ask(api)
    assert offered() == [("", " selected"), ("acme/large", "")]
    assert offered(model="gone") == [("", ""), ("acme/large", ""), ("gone", " selected")]


def test_every_choice_of_the_filters_begins_with_a_capital(owner):  # noqa: F811
    words = re.findall(r"<option[^>]*>([^<]+)<", owner.get(LIST).content.decode())
    assert "Cut short" in words
    assert [each for each in words if not each[0].isupper()] == []


def test_requests_are_found_by_a_tag(owner, key, past):  # noqa: F811
    blue = past(key, 1, tags={"team": "blue=green"})
    past(key, 2, tags={"team": "red"})
    past(key, 3, tags={"crew": "blue=green"})
    past(key, 4)
    assert listed(owner, tag="team=blue=green") == [blue.pk]
    assert listed(owner, tag="team=") == []
    wrong = owner.get(LIST, {"tag": "team"})
    assert (wrong.status_code, "Write a tag as name=value." in wrong.content.decode()) == (400, True)


def test_what_the_filters_select_is_downloaded_and_that_is_recorded(owner, alice, bob, past, monkeypatch):  # noqa: F811
    monkeypatch.setattr(files, "_ROWS_AT_ONCE", 2)
    first, second = (factories.make_key(alice, name)[0] for name in ("=first", "second"))
    ids = [past(first, minutes, end_user="@u", tags={"team": "blue"}).pk for minutes in range(5)]
    past(second, 9)
    reply = owner.post(f"{LIST}export/?key={first.pk}")
    assert reply["Content-Disposition"] == 'attachment; filename="requests.csv"'
    rows = list(csv.DictReader(b"".join(reply.streaming_content).decode().splitlines()))
    assert [row["completionId"] for row in rows] == ids
    assert list(rows[0]) == files.COLUMNS
    shown = {name: rows[0][name] for name in ("keyName", "endUser", "tags", "model", "provider", "status", "costInDollars")}
    assert shown == {
        **{"keyName": "'=first", "endUser": "'@u", "tags": '{"team":"blue"}', "model": "acme/large", "provider": "scripted"},
        **{"status": "succeeded", "costInDollars": "0.000057"},
    }
    [act] = Activity.objects.all()
    assert (act.act, act.account_id, act.after) == ("USAGE_EXPORTED", alice.pk, {"filters": {"key": first.pk}})
    assert owner.get(f"{LIST}export/").status_code == 405
    assert owner.post(f"{LIST}export/?status=refused").status_code == 400
    of_bob = signed_in(owner_of(bob)).post(f"{LIST}export/?key={first.pk}")
    assert of_bob.status_code == 400  # which is no key of Bob's
    monkeypatch.setattr(files, "EXPORTED_MAX", 3)
    assert len(b"".join(owner.post(f"{LIST}export/").streaming_content).splitlines()) == 1 + 4  # whole pages


def test_an_account_without_requests_is_told_what_will_be_there(owner):  # noqa: F811
    assert "No requests yet. Requests and their cost appear here." in text(owner.get(LIST))


def test_the_requests_of_all_keys_are_merged_newest_first(owner, alice, past):  # noqa: F811
    first, second = (factories.make_key(alice, name)[0] for name in ("first", "second"))
    expected = [past(first, 1), past(second, 2), past(first, 3), past(second, 4)]
    assert listed(owner) == [each.pk for each in expected]


def test_pages_lead_to_the_end_and_back(owner, key, past, monkeypatch):  # noqa: F811
    monkeypatch.setattr("completions.history.pages.REQUESTS_PER_PAGE", 2)
    ids = [past(key, minutes).pk for minutes in range(5)]
    seen, addresses = [], []
    reply = owner.get(LIST)
    assert (reply.context["first"], reply.context["newer"]) == (None, None)
    while True:
        seen += [row["completion"].pk for row in reply.context["rows"]]
        if reply.context["older"] is None:
            break
        addresses.append(reply.context["older"])
        reply = owner.get(LIST + reply.context["older"])
    assert (seen, len(addresses), reply.context["last"]) == (ids, 2, None)
    back = owner.get(LIST + reply.context["newer"])
    assert [row["completion"].pk for row in back.context["rows"]] == ids[2:4]
    newest = owner.get(LIST + back.context["newer"])
    assert [row["completion"].pk for row in newest.context["rows"]] == ids[:2]
    assert newest.context["newer"] is None
    oldest = owner.get(LIST + owner.get(LIST).context["last"])
    assert [row["completion"].pk for row in oldest.context["rows"]] == ids[3:]
    assert oldest.context["older"] is None


def test_filters_select_by_key_model_status_user_and_day(owner, alice, past):  # noqa: F811
    other = factories.make_model("acme/small")
    first, second = (factories.make_key(alice, name)[0] for name in ("first", "second"))
    of_first, small = past(first, 1), past(second, 2, model=other, price=other.prices.get())
    cut, failed, running = (
        past(second, 3, settlement="partial"),
        past(second, 4, settlement="released"),
        past(second, 5, settlement=None),
    )
    for_user, old = past(first, 6, end_user="u-1"), past(first, 60 * 24 * 3)
    everything = [each.pk for each in (of_first, small, cut, failed, running, for_user, old)]
    assert listed(owner) == listed(owner, key="", model="", status="", user="", since="", until="") == everything
    assert listed(owner, key=first.pk) == [of_first.pk, for_user.pk, old.pk]
    assert listed(owner, model="acme/small") == [small.pk]
    assert listed(owner, status="cut_short") == [cut.pk]
    assert listed(owner, status="failed", key=second.pk) == [failed.pk]
    assert listed(owner, status="running") == [running.pk]
    assert listed(owner, user="u-1") == [for_user.pk]
    day = old.created_at.date()
    assert listed(owner, since=day, until=day) == [old.pk]
    assert listed(owner, until=day - timedelta(days=1)) == []
    assert old.pk not in listed(owner, since=day + timedelta(days=1))


def test_an_account_with_many_keys_types_the_name_or_the_id_of_one(owner, alice, bob, past, monkeypatch):  # noqa: F811
    first, second = (factories.make_key(alice, name)[0] for name in ("first", "second"))
    of_first, of_second = past(first, 1).pk, past(second).pk
    factories.make_key(bob, "theirs")
    assert '<option value="' + first.pk in owner.get(LIST).content.decode()
    monkeypatch.setattr(list_forms, "OFFERED_MAX", 1)
    page = owner.get(LIST).content.decode()
    assert (first.pk in page, "Name or ID. Leave empty for all keys." in page) == (False, True)
    assert listed(owner, key=first.pk) == listed(owner, key="FIRST") == [of_first]
    assert listed(owner, key="") == [of_second, of_first]
    for name in ("theirs", "fir"):
        refused = owner.get(LIST, {"key": name})
        assert (refused.status_code, "No key has this name or ID." in refused.content.decode()) == (400, True)
    namesake = factories.make_key(alice, "first")[0]
    refused = owner.get(LIST, {"key": "first"})
    assert refused.status_code == 400
    assert f"Enter one of their IDs: {namesake.pk}, {first.pk}." in refused.content.decode()
    assert listed(owner, key=first.pk) == [of_first]


def test_a_page_keeps_the_filters(owner, key, past, monkeypatch):  # noqa: F811
    monkeypatch.setattr("completions.history.pages.REQUESTS_PER_PAGE", 1)
    succeeded = [past(key, minutes).pk for minutes in (1, 3)]
    past(key, 2, settlement="released")
    reply = owner.get(LIST, {"status": "succeeded", "key": key.pk})
    older = owner.get(LIST + reply.context["older"])
    assert [row["completion"].pk for row in older.context["rows"]] == succeeded[1:]


@pytest.mark.parametrize("direction", ["older", "newer"])
def test_a_search_without_an_index_is_bounded_and_says_how_far_it_came(owner, key, past, monkeypatch, direction):  # noqa: F811
    monkeypatch.setattr(reading, "SEARCHED_MAX", 2)
    ids = [past(key, minutes, end_user="rare" if minutes in (0, 4) else None).pk for minutes in range(5)]
    reply = owner.get(LIST, {"user": "rare", **({"newer": "0"} if direction == "newer" else {})})
    pages = [[row["completion"].pk for row in reply.context["rows"]]]
    while reply.context[direction] is not None:
        assert reply.context["searched_to"]
        assert "Searched 2 requests, back to" in text(reply)
        reply = owner.get(LIST + reply.context[direction])
        pages.append([row["completion"].pk for row in reply.context["rows"]])
    found = [ids[0], ids[4]] if direction == "older" else [ids[4], ids[0]]
    assert pages == [found[:1], [], found[1:]]


@pytest.mark.parametrize(
    ("filters", "at_fault"),
    [
        ({"status": "great"}, "status"),
        ({"key": "nobody"}, "key"),
        ({"since": "soon"}, "since"),
        ({"since": "2026-11-0\N{ARABIC-INDIC DIGIT THREE}"}, "since"),
        ({"since": "2026-11-22", "until": "2026-11-21"}, "until"),
        ({"newer": "x" * 65}, "newer"),
        ({"user": "x" * 513}, "user"),
    ],
)
def test_a_wrong_filter_is_marked(owner, filters, at_fault):  # noqa: F811
    reply = owner.get(LIST, filters)
    assert (reply.status_code, list(reply.context["form"].errors)) == (400, [at_fault])


@pytest.mark.parametrize("filters", [{"since": "0001-01-01", "until": "9999-12-31"}, {"older": "%"}, {"newer": "é"}])
def test_an_odd_filter_selects_something_or_nothing(owner, filters):  # noqa: F811
    assert listed(owner, **filters) == []


def test_a_request_is_found_by_its_id_or_its_request_id(api, owner, large):  # noqa: F811
    reply = ask(api)
    for wanted in (reply.json()["id"], f" {reply['x-request-id']} "):
        found = owner.get(LIST, {"id": wanted})
        assert (found.status_code, found["Location"]) == (302, f"{LIST}{wanted.strip()}/")
        assert reply.json()["id"] in text(owner.get(found["Location"]))
    assert (
        "This account has no request with the ID <code>nothing</code>." in owner.get(LIST, {"id": "nothing"}).content.decode()
    )


@pytest.mark.one_cell
def test_the_list_takes_as_many_queries_for_many_keys_and_requests_as_for_one(owner, alice, past):  # noqa: F811
    def queries():
        with CaptureQueriesContext(connection) as captured:
            assert owner.get(LIST, {"status": "succeeded"}).status_code == 200
        return len(captured)

    past(factories.make_key(alice, "first")[0])
    few = queries()
    for number in range(20):
        past(factories.make_key(alice, f"key {number}")[0], number)
    assert queries() == few <= 10


# --- One request -----------------------------------------------------------------------------------------------------


def test_a_charge_is_explained_line_by_line(api, alice, owner, large, upstream):  # noqa: F811
    upstream.will(whole(usage=USAGE | {"prompt_tokens_details": {"cached_tokens": 4}}))
    reply = ask(api, user="u-1", metadata={"team": "search"})
    done = Completion.objects.get()
    page = page_of(owner, done)
    assert "What it cost $0.0000462 Charged from the provider's token counts." in page
    assert "Quantity Price per 1M tokens Amount Input tokens 5 $3.00 $0.0000150" in page
    assert "Cached input tokens 4 $0.30 $0.0000012" in page
    assert "Output tokens 2 $15.00 $0.0000300" in page
    assert "Total, rounded up once to a billionth of a dollar $0.0000462" in page
    hold = Hold.objects.get()
    assert (hold.amount_nanos, done.cost_nanos) == (round(float(reply["x-gateway-max-cost"]) * 1e9), 46_200)
    shown = re.search(r"Held \$([\d.]+) Charged \$([\d.]+) Released \$([\d.]+) ", page)
    held, charged, returned = map(Decimal, shown.groups())
    assert (charged, charged + returned, int(held * 10**9)) == (Decimal("0.0000462"), held, hold.amount_nanos)
    assert "Ledger entry -$0.0000462, " in page
    assert "scripted answered" in page
    assert f"Key test End user u-1 Tag team search Completion ID {done.pk} Request ID {reply['x-request-id']}" in page
    entry = LedgerEntry.objects.get(reference=done.pk)
    assert f'href="/dashboard/ledger/?entry={entry.pk}#entry-{entry.pk}"' in owner.get(f"{LIST}{done.pk}/").content.decode()


def test_a_running_request_says_what_it_holds(api, alice, owner, large, upstream):  # noqa: F811
    upstream.will(streamed())
    _, rest = begin(ask_streamed(api), "Hello you")
    page = page_of(owner, Completion.objects.get())
    assert "acme/large running" in page
    assert "What it holds Still running. When it ends, it is charged and the rest of the hold is released." in page
    assert "Released" not in page
    assert b"".join(rest)
    assert "acme/large succeeded" in page_of(owner, Completion.objects.get())


def test_attempts_that_failed_are_told_without_the_providers_words(api, alice, owner, large, upstream, spare):  # noqa: F811
    add(large, spare)
    upstream.will(refusal(500, "secret words of a provider"))
    ask(api)
    page = page_of(owner, Completion.objects.get())
    assert "scripted failed (status 500) spare answered" in page
    assert "secret" not in page


def test_a_stream_that_broke_off_is_cut_short(api, alice, owner, large, upstream):  # noqa: F811
    upstream.will(stream(ROLE, words("Hello ", "you"), CLOSE))
    assert "error" in events(ask_streamed(api))[-1]
    page = page_of(owner, Completion.objects.get())
    assert "acme/large cut short" in page
    assert "You are charged the estimated input and the text that arrived" in page
    assert "Output tokens" in page


def test_a_request_that_failed_says_what_the_caller_was_told_and_what_to_do(api, alice, owner, large, upstream):  # noqa: F811
    upstream.will(refusal(500), refusal(500))
    reply = ask(api)
    collector.write()
    page = page_of(owner, Completion.objects.get())
    assert "acme/large failed Error message The provider failed. The model's provider failed." in page
    assert "Send it again." in page
    assert "Not charged, and the hold was released" in page
    assert reply.status_code == 502


def test_a_charge_beyond_the_hold_is_paid_by_the_gateway(owner, key, past):  # noqa: F811
    done = past(key, prompt_tokens=9, completion_tokens=4)  # it cost 57,000 nanodollars, for 87,000 of tokens
    assert "Less what exceeds the hold: we pay it -$0.00003" in page_of(owner, done)


def test_a_second_run_is_charged_less_by_what_the_first_paid(owner, key, past):  # noqa: F811
    first = past(key, 1)
    second = past(key, cost_nanos=0, repeats=first.pk, charged_before_nanos=57_000)
    reply = owner.get(f"{LIST}{second.pk}/")
    assert "with the same Idempotency-Key -$0.000057" in text(reply)
    assert f'href="{LIST}{first.pk}/"' in reply.content.decode()


def test_images_have_a_line_and_cost_nothing_in_a_request_that_failed(owner, key, past, large):  # noqa: F811
    factories.change_prices(Price.objects, image_nanos=2_000_000)
    assert "Images 3 $0.002 each $0.006" in page_of(owner, past(key, images=3))
    assert "Images" not in page_of(owner, past(key, images=3, settlement="released", cost_nanos=0, prompt_tokens=0))


def test_what_is_kept_for_an_hour_has_a_line_of_its_own(owner, key, past, large):  # noqa: F811
    factories.change_prices(Price.objects, cache_write_nanos=3_750_000_000, cache_write_1h_nanos=6_000_000_000)
    page = page_of(owner, past(key, prompt_tokens=50, cache_write_tokens=50, cache_write_1h_tokens=30))
    assert "Input tokens written to the cache 20 $3.75 $0.000075" in page
    assert "Input tokens cached for one hour 30 $6.00 $0.00018" in page


def test_searches_of_the_web_have_a_line(owner, key, past, large):  # noqa: F811
    factories.change_prices(Price.objects, web_search_nanos=10_000_000)
    assert "Web searches 3 $0.01 each $0.03" in page_of(owner, past(key, web_searches=3))


# --- Refusals --------------------------------------------------------------------------------------------------------


def test_a_refused_request_is_listed_and_says_what_to_do(api, alice, owner, large):  # noqa: F811
    reply = ask(api, model="acme/none")
    collector.write()
    assert listed(owner) == []
    page = text(owner.get(LIST, {"status": "refused"}))
    assert "The model does not exist, or is not offered acme/none test 404" in page
    page = text(owner.get(f"{LIST}{reply['x-request-id']}/"))
    assert "Refused request" in page
    assert "We do not store this message because it quotes the request." in page or "acme/none" in page
    assert "Correct the model's id, or use a model that GET /v1/models lists for the key." in page
    assert "Reply 404 model_not_found" in page
    assert f"Key test Model acme/none Request ID {reply['x-request-id']}" in page


def test_the_list_of_refusals_tells_why_a_model_was_not_found(api, alice, owner, large):  # noqa: F811
    factories.make_model("acme/small", provider=factories.make_provider("later", api_key_env="NO_SUCH_API_KEY"))
    limited = client_for(factories.make_key(alice, "limited", allowed_models=["acme/small"])[1])
    for client, model in ((api, "acme/none"), (api, "acme/small"), (limited, "acme/large")):
        ask(client, model=model)
    collector.write()
    page = text(owner.get(LIST, {"status": "refused"}))
    assert "The model does not exist, or is not offered acme/none test 404" in page
    assert "The model is not available here yet: no provider is connected acme/small test 404" in page
    assert "The key may not use the model acme/large limited 404" in page


def test_refusals_are_filtered_and_paged(owner, alice, large):  # noqa: F811
    first, second = (factories.make_key(alice, name)[0] for name in ("first", "second"))
    now = datetime.now(UTC)
    for number in range(30):
        RefusedRequest.objects.create(
            key=first if number % 2 else second,
            at=now - timedelta(hours=number),
            request_id=f"request-{number:02}",
            status=402,
            code="insufficient_quota",
            error="InsufficientQuota",
            model="acme/large",
        )

    def shown(**filters):
        reply = owner.get(LIST, {"status": "refused", **filters})
        return [row["refusal"].request_id for row in reply.context["refused"]]

    assert shown() == [f"request-{number:02}" for number in range(25)]
    assert shown(page="2") == [f"request-{number:02}" for number in range(25, 30)]
    assert shown(key=second.pk) == [f"request-{number:02}" for number in range(0, 30, 2)]
    assert (
        shown(model="acme/large", until=(now - timedelta(days=1)).date())
        == [f"request-{number:02}" for number in range(30) if (now - timedelta(hours=number)).date() < now.date()][:25]
    )
    page = owner.get(LIST, {"status": "refused", "key": first.pk, "page": "1"}).content.decode()
    assert "We keep the last 50 refusals of each key for 30 days." in page
    assert "?status=refused&amp;page=2" in owner.get(LIST, {"status": "refused"}).content.decode()


# --- Others ----------------------------------------------------------------------------------------------------------


def test_a_stranger_finds_no_request_of_the_account(api, alice, owner, other_owner, large):  # noqa: F811
    done = ask(api)
    refused = ask(api, model="acme/none")
    collector.write()
    for wanted in (done.json()["id"], done["x-request-id"], refused["x-request-id"]):
        assert owner.get(f"{LIST}{wanted}/").status_code == 200
        assert other_owner.get(f"{LIST}{wanted}/").status_code == 404
        assert other_owner.get(LIST, {"id": wanted}).status_code == 200
    assert listed(other_owner) == []
    assert other_owner.get(LIST, {"key": Completion.objects.get().key_id}).status_code == 400
    assert "acme/none" not in text(other_owner.get(LIST, {"status": "refused"}))


@pytest.mark.parametrize("wanted", ["nothing", "%00", "x" * 65, "chatcmpl-"])
def test_a_request_that_does_not_exist_is_not_found(owner, wanted):  # noqa: F811
    assert owner.get(f"{LIST}{wanted}/").status_code == 404
