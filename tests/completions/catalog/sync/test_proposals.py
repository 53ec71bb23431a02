"""Providers' own lists of models: what they propose, what is applied by the rule, and everything that is not believed."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models.functions import Now

from billing.models import User
from completions import tasks
from completions.catalog import lookup
from completions.catalog.sync import diff, fetch, parse, proposals
from completions.models import CatalogProposal, LanguageModel, Price, Provider, Route, UpstreamList
from tests import factories
from tests.completions import rows
from tests.completions.catalog.sync.lists import ListServer, bare, entry, listing, priced, reply, serving
from tests.upstream import DONE, FINISH, ROLE, Upstream, stream, usage, words

pytestmark = pytest.mark.django_db

OLD_PRICE = {"input": "3.00", "output": "15.00", "cached_input": "0.30", "cache_write": None, "image": None}


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> Iterator[ListServer]:
    monkeypatch.setattr(fetch, "BACKOFF_SECONDS", 0)
    with serving() as server:
        server.lists(entry())
        yield server


def make_provider(lists: ListServer, slug: str = "barn", **fields: Any) -> Provider:
    return factories.make_provider(slug, kind="openai", **{"base_url": lists.url, "sync": "propose", **fields})


def make_model(provider: Provider, model_id: str = "acme/large", **fields: Any) -> LanguageModel:
    terms = {"input": "3.00", "output": "15.00", "cached_input": "0.30", "upstream_model": model_id}
    return factories.make_model(model_id, provider=provider, **{**terms, **fields})


@pytest.fixture
def barn(lists: ListServer) -> Provider:
    return make_provider(lists)


@pytest.fixture
def large(barn: Provider) -> LanguageModel:
    return make_model(barn)


@pytest.fixture
def sync(capsys: pytest.CaptureFixture[str]) -> Any:
    """``manage.py sync_catalog``: the one provider that it reports of, as JSON."""

    def sync(*arguments: str) -> dict[str, Any]:
        call_command("sync_catalog", *arguments, "--json")
        [report] = json.loads(capsys.readouterr().out.splitlines()[-1])["providers"]
        return report

    return sync


def catalog() -> list[list[tuple[Any, ...]]]:
    return [list(table.objects.order_by("pk").values_list()) for table in (Provider, LanguageModel, Price, Route)]


def proposed(state: str = "pending") -> list[tuple[str, str | None, dict[str, Any], dict[str, Any]]]:
    found = CatalogProposal.objects.filter(state=state).order_by("pk")
    return [(each.kind, each.model_id, each.old, each.new) for each in found]


def staff() -> User:
    return factories.make_user("staff@example.org", is_staff=True)


# --- What is proposed --------------------------------------------------------------------------------------------


def test_a_list_that_says_the_same_proposes_nothing(large, sync):
    before = catalog()

    report = sync()

    assert report == {
        "provider": "barn",
        "listed": 1,
        "isUnchanged": False,
        "proposed": [],
        "applied": [],
        "outdated": 0,
        "waiting": 0,
        "notes": [],
    }
    assert proposed() == []
    assert catalog() == before


def test_another_price_is_proposed_exactly_and_nothing_is_changed(large, lists, sync):
    lists.lists(priced(prompt="0.00000015", completion="6e-7", input_cache_read="0.0000000375", input_cache_write="0.0000002"))
    before = catalog()

    report = sync()

    new = {"input": "0.15", "output": "0.60", "cached_input": "0.0375", "cache_write": "0.20", "image": None}
    assert proposed() == [("price", "acme/large", OLD_PRICE, new)]
    assert [(change["kind"], change["new"]) for change in report["proposed"]] == [("price", new)]
    assert report["waiting"] == 1
    assert catalog() == before


def test_other_limits_and_capabilities_are_proposed(large, lists, sync):
    changed = {
        "context_length": 200_000,
        "top_provider": {"max_completion_tokens": 64_000},
        "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
        "supported_parameters": ["tools", "tool_choice"],
    }
    lists.lists(entry(**changed))

    sync()

    assert proposed() == [
        (
            "limits",
            "acme/large",
            {"context_window": 128_000, "max_output_tokens": 4_096},
            {"context_window": 200_000, "max_output_tokens": 64_000},
        ),
        (
            "capabilities",
            "acme/large",
            {"image_support": False, "function_calling": False},
            {"image_support": True, "function_calling": True},
        ),
    ]


def test_a_smaller_window_takes_the_output_with_it(large, lists, sync):
    lists.lists(entry(context_length=2_000, top_provider={}))

    sync()

    [(kind, _, _, new)] = proposed()
    assert (kind, new) == ("limits", {"context_window": 2_000, "max_output_tokens": 2_000})


@pytest.mark.parametrize(
    "silent",
    [
        bare("acme/large"),
        entry(context_length=None, architecture=None, pricing=None, top_provider=None, supported_parameters=None),
        entry(context_length="many", architecture=[], pricing=[], top_provider=[], supported_parameters="tools"),
        entry(context_length=True, architecture={"input_modalities": []}, supported_parameters=[], top_provider={"n": 1}),
        entry(context_length=0, architecture={}, supported_parameters={}, top_provider={"max_completion_tokens": -1}),
        entry(context_length=2**40, architecture=1, supported_parameters=1, top_provider={"max_completion_tokens": 1.5}),
    ],
    ids=["OpenAI", "nulls", "other types", "true and empty", "zero and less", "huge and broken"],
)
def test_what_a_list_does_not_say_stays_as_it_is(large, lists, sync, silent):
    LanguageModel.objects.update(image_support=True, function_calling=True)
    lists.lists(silent)

    assert sync()["listed"] == 1
    assert proposed() == []


def test_an_output_beyond_the_window_is_not_believed(large, lists, sync):
    lists.lists(entry(top_provider={"max_completion_tokens": 128_001}))

    assert sync()["notes"] == ["acme/large is said to write 128001 tokens, and to hold 128000"]
    assert proposed() == []


# --- Prices that are none ----------------------------------------------------------------------------------------


_UNBELIEVABLE = "has a price that cannot be believed: "


@pytest.mark.parametrize(
    ("pricing", "note"),
    [
        ({"prompt": "-1", "completion": "-1"}, _UNBELIEVABLE + "prompt '-1'"),
        ({"prompt": None}, _UNBELIEVABLE + "prompt is missing"),
        ({"completion": None}, _UNBELIEVABLE + "completion is missing"),
        ({"prompt": "NaN"}, _UNBELIEVABLE + "prompt 'NaN'"),
        ({"prompt": "Infinity"}, _UNBELIEVABLE + "prompt 'Infinity'"),
        ({"prompt": ""}, _UNBELIEVABLE + "prompt ''"),
        ({"prompt": "0,000001"}, _UNBELIEVABLE + "prompt '0,000001'"),
        ({"prompt": "\N{ARABIC-INDIC DIGIT THREE}"}, _UNBELIEVABLE + "prompt '\N{ARABIC-INDIC DIGIT THREE}'"),
        ({"prompt": 0.000002}, _UNBELIEVABLE + "prompt '2e-06'"),
        ({"prompt": "0.0000000000000001"}, _UNBELIEVABLE + "prompt '0.0000000000000001'"),  # a tenth of a nanodollar
        ({"prompt": f"0.000003{'0' * 30}1"}, _UNBELIEVABLE + f"prompt '0.000003{'0' * 30}1'"),  # what 28 digits would round
        ({"prompt": "10"}, _UNBELIEVABLE + "prompt '10'"),  # per token: too much for a bigint
        ({"input_cache_read": "-1"}, _UNBELIEVABLE + "input_cache_read '-1'"),
        ({"request": "0.005"}, "costs something for each request, which no price here can say"),
        ({"prompt": "0", "completion": "0"}, "is listed with a price of 0, which is not believed"),
        ({"completion": "0.0"}, "is listed with a price of 0, which is not believed"),
    ],
)
def test_a_price_that_cannot_be_is_noted_and_not_proposed(large, lists, sync, pricing, note):
    lists.lists(priced(**pricing))

    report = sync("--apply")

    assert report["notes"] == [f"acme/large {note}"]
    assert CatalogProposal.objects.count() == 0
    assert Price.objects.count() == 1


def test_what_is_free_here_and_there_is_no_news(barn, lists, sync):
    make_model(barn, input="0", output="0", cached_input=None)
    lists.lists(priced(prompt="0", completion="0", input_cache_read=None))

    assert sync()["notes"] == []
    assert proposed() == []


@pytest.mark.parametrize(
    ("pricing", "changed"),
    [
        ({"input_cache_read": None}, {}),
        ({"input_cache_read": "0", "input_cache_write": "0"}, {}),
        ({"internal_reasoning": "0.00002"}, {"output": "20.00"}),
        ({"internal_reasoning": "0.00001"}, {}),
        ({"overrides": [{"min_prompt_tokens": 200_000, "prompt": "0.000006"}, {"completion": "0.00001"}]}, {"input": "6.00"}),
        ({"overrides": "none", "discount": 0.5, "web_search": "0.01", "image": "0.004"}, {}),
    ],
    ids=["unsaid", "zeros", "dear thoughts", "cheap thoughts", "overrides", "what is not ours"],
)
def test_a_price_is_the_highest_that_a_request_may_cost(large, lists, sync, pricing, changed):
    lists.lists(priced(**pricing))

    sync()

    assert proposed() == ([("price", "acme/large", OLD_PRICE, {**OLD_PRICE, **changed})] if changed else [])


def test_a_price_for_images_of_ours_stays(large, lists, sync):
    Price.objects.update(image_nanos=4_000_000)
    lists.lists(priced(prompt="0.000002", image="0.009"))

    sync()

    [(_, _, old, new)] = proposed()
    assert (old["image"], new["image"], new["input"]) == ("0.004", "0.004", "2.00")


# --- Whose list speaks for a model -------------------------------------------------------------------------------


def test_only_the_provider_that_is_asked_first_speaks_for_a_model(large, barn, lists, sync):
    first = factories.make_provider("first", kind="openai", base_url="http://127.0.0.1:9")
    Route.objects.update(priority=2)
    Route.objects.create(model=large, provider=first, upstream_model="acme/large", priority=1)
    lists.lists(priced(prompt="0.000001"))

    sync()
    assert proposed() == []

    Route.objects.filter(provider=first).update(is_enabled=False)
    sync()
    assert [kind for kind, *_ in proposed()] == ["price"]


def test_a_route_may_call_a_model_by_its_permanent_name(barn, lists, sync):
    make_model(barn, upstream_model="acme/large-20260422")
    free = priced("acme/large:free", prompt="0", completion="0", input_cache_read=None)
    lists.lists({**free, "canonical_slug": "acme/large-20260422"}, priced(prompt="0.000002"))

    sync()

    assert [(kind, model, new.get("input") or new["id"]) for kind, model, _, new in proposed()] == [
        ("price", "acme/large", "2.00"),
        ("new_model", None, "acme/large:free"),
    ]


def test_a_model_that_is_listed_twice_and_not_the_same_proposes_nothing(large, lists, sync):
    lists.lists(priced(prompt="0.000001"), priced(prompt="0.000002"), priced(prompt="0.000001"))

    assert sync()["notes"] == ["acme/large is listed twice, and not the same"]
    assert proposed() == []


def test_a_model_that_will_end_is_noted(large, lists, sync):
    lists.lists(entry(expiration_date="2027-01-31"))

    assert sync()["notes"] == ["acme/large is said to end on 2027-01-31"]


# --- New, and gone -----------------------------------------------------------------------------------------------


def test_a_new_model_is_proposed_with_what_the_list_says(large, lists, sync):
    lists.lists(entry(), entry("acme/small", name="Acme: Small", top_provider={"max_completion_tokens": None}))

    sync()

    assert proposed() == [
        (
            "new_model",
            None,
            {},
            {
                "id": "acme/small",
                "name": "Small",
                "maker": "Acme",
                "context_window": 128_000,
                "max_output_tokens": 128_000,
                "image_support": False,
                "function_calling": False,
                "price": OLD_PRICE,
            },
        ),
    ]


def test_a_new_model_of_openais_shape_is_named_after_its_provider(large, lists, sync):
    lists.lists(bare("acme/large"), bare("large-2"), bare("text-embedding-3-large"), bare("whisper-1"))

    sync()

    [(_, _, _, new)] = proposed()
    assert (new["id"], new["maker"], new["context_window"], new["price"]) == ("barn/large-2", "acme", None, None)


def test_what_is_no_model_for_chat_is_not_proposed(large, lists, sync):
    factories.make_model("acme/elsewhere")
    lists.lists(
        entry(),
        entry("~acme/large-latest"),
        entry("openrouter/auto", pricing={"prompt": "-1", "completion": "-1"}),
        entry("acme/painter", architecture={"output_modalities": ["image"]}),
        entry("acme/elsewhere"),  # it is offered already, from somebody else
        entry("acme//odd"),
        entry("two words"),
        entry("line\nbreak"),
        {"id": 7},
        {},
    )

    sync()

    assert proposed() == []


def test_a_model_that_is_no_longer_listed_is_proposed_to_go(large, barn, lists, sync):
    make_model(barn, "acme/small")
    make_model(barn, "acme/large:nitro")  # a variant of what is listed
    lists.lists(entry())
    before = catalog()

    sync("--apply")

    assert proposed() == [("gone", "acme/small", {"upstream_model": "acme/small"}, {})]
    assert catalog() == before


def test_a_route_that_is_switched_off_is_neither_gone_nor_new(large, barn, lists, sync):
    make_model(barn, "acme/small", upstream_model="small")
    make_model(barn, "acme/tiny", upstream_model="tiny")
    Route.objects.exclude(model=large).update(is_enabled=False)
    lists.lists(entry(), bare("tiny"))

    sync()

    assert proposed() == []


# --- Again -------------------------------------------------------------------------------------------------------


def test_a_second_run_proposes_nothing_and_what_waits_stays(large, lists, sync):
    lists.lists(priced(prompt="0.000002"), entry("acme/small"))
    sync()
    before = list(CatalogProposal.objects.values())
    assert len(before) == 2

    report = sync()

    assert (report["proposed"], report["outdated"], report["waiting"]) == ([], 0, 2)
    assert list(CatalogProposal.objects.values()) == before


def test_a_difference_that_is_no_more_is_outdated(large, lists, sync):
    lists.lists(priced(prompt="0.000002"))
    sync()
    lists.lists(entry())

    assert sync()["outdated"] == 1
    assert proposed() == []
    assert [kind for kind, *_ in proposed("superseded")] == ["price"]


def test_a_difference_that_changed_takes_the_place_of_the_old_one(large, lists, sync):
    lists.lists(priced(prompt="0.000002"))
    sync()
    lists.lists(priced(prompt="0.000001"))
    sync()

    assert [new["input"] for _, _, _, new in proposed("superseded")] == ["2.00"]
    assert [new["input"] for _, _, _, new in proposed()] == ["1.00"]


def test_what_was_dismissed_is_not_proposed_again_and_something_else_is(large, lists, sync):
    lists.lists(priced(prompt="0.000002"), entry("acme/small"))
    sync()
    by = staff()
    for each in CatalogProposal.objects.all():
        proposals.dismiss(each.pk, by=by)
    lists.lists(priced(prompt="0.000002"), priced("acme/small", prompt="0.000001"))

    assert sync()["proposed"] == []

    lists.lists(priced(prompt="0.000001"), entry("acme/small"))
    assert [change["new"]["input"] for change in sync()["proposed"]] == ["1.00"]


@pytest.mark.django_db(transaction=True)
def test_two_runs_at_once_propose_once(large, lists):
    lists.lists(priced(prompt="0.0000029"), entry("acme/small"))
    barn = Provider.objects.get(pk="barn")
    lists.meet = threading.Barrier(2).wait  # both have asked before either is answered

    def run(_: int) -> int:
        try:
            report = proposals.sync(barn, applies=True)
            return len(report.proposed) + len(report.applied)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        found = sorted(pool.map(run, range(2)))

    assert found == [0, 2]
    assert sorted(kind for kind, *_ in [*proposed(), *proposed("applied")]) == ["new_model", "price"]
    assert Price.objects.count() == 2
    assert UpstreamList.objects.count() == 1


# --- Lists that are not believed ---------------------------------------------------------------------------------


_PART = "sent a list that is only a part of what there is"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "sent a list that is not one JSON object"),
        ("<html>", "sent a list that is not one JSON object"),
        ("[]", "sent a list that is not one JSON object"),
        ('{"data": [{"id": "acme/large", "context_length": NaN}]}', "sent a list that is not one JSON object"),
        ('{"data": [{"id": "acme/large", "id": "acme/small"}]}', "sent a list that is not one JSON object"),
        ("[" * 100_000, "sent a list that is not one JSON object"),
        ('{"data": [{"id": "acme/lar', "sent a list that is not one JSON object"),
        ("{}", 'sent a list that has no "data" with the models'),
        ('{"data": {}}', 'sent a list that has no "data" with the models'),
        ('{"data": [{"id": "acme/large"}], "links": {"next": "/v1/models?offset=1"}}', _PART),
        ('{"data": [{"id": "acme/large"}], "total_count": 2}', _PART),
        ('{"data": [{"id": "acme/large"}], "has_more": true}', _PART),
        ('{"data": []}', "sent a list without a model"),
        ('{"data": [{"id": "x"}]}', "sent a list without 1 of 1 models, which is not believed"),
    ],
)
def test_what_is_no_whole_list_changes_nothing_and_is_said(large, lists, body, reason):
    lists.will(reply(body))
    before = catalog()

    with pytest.raises(CommandError) as refused:
        call_command("sync_catalog", "--apply")

    assert str(refused.value) == f"barn {reason}."
    assert (catalog(), proposed()) == (before, [])
    kept = UpstreamList.objects.get()
    assert (kept.body, kept.confirmed_at, kept.failure) == ("", None, reason)


def test_the_whole_of_openrouters_envelope_is_taken(large, lists, sync):
    lists.will(reply(json.dumps({"data": [entry()], "links": {"next": None}, "total_count": 1})))

    assert sync()["listed"] == 1


def test_a_list_that_lost_most_of_its_models_is_not_believed_until_somebody_does(large, lists, sync):
    lists.lists(entry(), entry("acme/a"), entry("acme/b"), entry("acme/c"), entry("acme/d"))
    sync()
    before = list(CatalogProposal.objects.values())
    lists.lists(priced(prompt="0.000001"), entry("acme/a"))

    with pytest.raises(CommandError, match="barn sent a list without 3 of 5 models, which is not believed"):
        sync()
    assert list(CatalogProposal.objects.values()) == before

    assert (sync("--believe")["listed"], len(proposed())) == (2, 2)
    assert sync()["listed"] == 2  # it is what later ones are held against


def test_half_may_go(large, lists, sync):
    lists.lists(entry(), entry("acme/a"), entry("acme/b"), entry("acme/c"))
    sync()
    lists.lists(entry(), entry("acme/a"))

    assert sync()["outdated"] == 2


# --- Asking ------------------------------------------------------------------------------------------------------


def test_the_provider_is_asked_with_its_key_at_its_own_address_alone(large, lists, sync, monkeypatch):
    monkeypatch.setenv("BARN_KEY", "sk-barn-0123456789")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    Provider.objects.update(api_key_env="BARN_KEY")

    sync()

    [(path, headers)] = lists.asked
    assert path == "/v1/models"
    assert headers["authorization"] == "Bearer sk-barn-0123456789"
    assert headers["accept-encoding"] == "identity"


def test_a_redirect_is_not_followed(large, lists, caplog):
    with serving() as elsewhere:
        elsewhere.lists(entry())
        lists.will(reply(status=302, Location=f"{elsewhere.url}/models"))

        with pytest.raises(CommandError, match=r"^barn answered 302\.$"):
            call_command("sync_catalog")

        assert elsewhere.asked == []
    assert "the list of barn was not taken: it answered 302" in caplog.text


def test_a_list_that_has_not_changed_is_not_sent_again_and_still_held_against_the_catalog(large, lists, sync):
    lists.lists(entry(), ETag='"v1"')
    sync()
    Price.objects.create(model=large, input_nanos=1, output_nanos=1)
    lists.will(reply(status=304))

    report = sync()

    assert "if-none-match" not in lists.asked[0][1]
    assert lists.asked[1][1]["if-none-match"] == '"v1"'
    assert (report["listed"], report["isUnchanged"]) == (1, True)
    assert [kind for kind, *_ in proposed()] == ["price"]


def test_the_list_of_another_address_is_asked_for_anew(large, lists, sync):
    lists.lists(entry(), entry("acme/a"), entry("acme/b"), ETag='"v1"')
    sync()
    Provider.objects.update(base_url=lists.url.replace("/v1", "/v2"))
    lists.lists(entry())

    assert sync()["listed"] == 1  # nor has it lost anything
    assert "if-none-match" not in lists.asked[1][1]


@pytest.mark.parametrize(
    "failure", [reply(status=500), reply(status=503, Retry_After="0"), reply(status=429, Retry_After="0"), reply(status=408)]
)
def test_a_passing_failure_is_asked_again(large, lists, sync, failure):
    lists.will(failure, failure, listing(entry()))

    assert sync()["listed"] == 1
    assert len(lists.asked) == 3


@pytest.mark.parametrize(("status", "asked"), [(500, 3), (401, 1), (403, 1), (404, 1), (304, 1)])
def test_a_failure_that_stays_is_said_and_nothing_is_lost(large, lists, sync, status, asked):
    sync()
    kept = UpstreamList.objects.get()
    lists.asked.clear()
    lists.will(reply(status=status))

    with pytest.raises(CommandError, match=rf"^barn answered {status}\.$"):
        sync()

    assert len(lists.asked) == asked
    now = UpstreamList.objects.get()
    assert (now.body, now.confirmed_at, now.failure) == (kept.body, kept.confirmed_at, f"answered {status}")


@pytest.mark.parametrize("retry_after", ["3600", "Fri, 31 Dec 2100 23:59:59 GMT"])
def test_who_wants_to_be_left_alone_for_long_is(large, lists, sync, retry_after):
    lists.will(reply(status=429, Retry_After=retry_after), listing(entry()))

    with pytest.raises(CommandError, match="barn answered 429"):
        sync()
    with pytest.raises(CommandError, match="barn wants to be left alone until 20"):
        sync()
    assert len(lists.asked) == 1

    UpstreamList.objects.update(retry_at=Now() - timedelta(seconds=1))
    assert sync()["listed"] == 1
    assert UpstreamList.objects.get().retry_at is None


def test_nobody_there_is_said(large, lists):
    Provider.objects.update(base_url="http://127.0.0.1:9/v1")

    with pytest.raises(CommandError, match=r"^barn cannot be reached: ConnectionError\.$"):
        call_command("sync_catalog")


@pytest.mark.parametrize(
    ("limit", "value", "reason"),
    [
        ("BYTES_MAX", 100, "sent a list of more than 100 bytes"),
        ("BODY_SECONDS", -1, "took more than -1 seconds to send its list"),
    ],
)
def test_a_list_is_bounded(large, lists, monkeypatch, limit, value, reason):
    monkeypatch.setattr(fetch, limit, value)

    with pytest.raises(CommandError, match=rf"^barn {reason}\.$"):
        call_command("sync_catalog")


def test_a_list_that_is_cut_short_is_asked_for_again(large, lists, sync):
    whole = listing(entry())
    lists.will(reply(whole.body[:-9], Content_Length=str(len(whole.body)), Connection="close"), whole)

    assert sync()["listed"] == 1
    assert len(lists.asked) == 2


def test_what_may_unfold_is_not_read(large, lists):
    lists.will(reply(b"\x1f\x8b", Content_Encoding="gzip"))

    with pytest.raises(CommandError, match="barn sent its list compressed"):
        call_command("sync_catalog")


def test_a_key_that_cannot_be_read_or_sent_is_said_without_it(large, lists, monkeypatch, caplog):
    Provider.objects.update(sealed_api_key="gAAA-not-ours")
    with pytest.raises(CommandError, match=r"^barn has a key that cannot be read\.$"):
        call_command("sync_catalog")

    monkeypatch.setenv("BARN_KEY", "sk-barn\nX-Evil: 1")
    Provider.objects.update(sealed_api_key="", api_key_env="BARN_KEY")
    with pytest.raises(CommandError, match=r"^barn cannot be asked: its address or its key fits no request\.$"):
        call_command("sync_catalog")
    assert lists.asked == []
    assert "sk-barn" not in caplog.text


# --- The rule ----------------------------------------------------------------------------------------------------


def prices(**changed: str | None) -> dict[str, str | None]:
    return {**OLD_PRICE, **changed}


@pytest.mark.parametrize(
    ("kind", "old", "new", "is_small"),
    [
        ("price", prices(), prices(input="3.75"), True),
        ("price", prices(), prices(input="3.750000001"), False),
        ("price", prices(), prices(input="2.25"), True),
        ("price", prices(), prices(input="2.249999999"), False),
        ("price", prices(), prices(output="0.015"), False),
        ("price", prices(), prices(cached_input="0.38"), False),
        ("price", prices(), prices(cache_write="3.75"), True),  # without one it costs as input
        ("price", prices(), prices(cache_write="6.00"), False),
        ("price", prices(), prices(cached_input=None), False),
        ("price", prices(), prices(image="0.01"), False),
        ("price", prices(input="0.00"), prices(input="0.01"), False),
        ("price", {}, prices(), False),
        ("limits", {"context_window": 10, "max_output_tokens": 5}, {"context_window": 11, "max_output_tokens": 5}, True),
        ("limits", {"context_window": 10, "max_output_tokens": 5}, {"context_window": 11, "max_output_tokens": 4}, False),
        ("capabilities", {"image_support": False}, {"image_support": True}, True),
        ("capabilities", {"image_support": True}, {"image_support": False}, False),
        ("gone", {"upstream_model": "m"}, {}, False),
        ("new_model", {}, {"id": "m"}, False),
    ],
)
def test_the_rule_lets_through_what_is_small_and_takes_nothing_away(kind, old, new, is_small):
    assert diff.can_apply_automatically(kind, old, new, percent=25) is is_small


def test_a_provider_that_applies_changes_what_is_small_and_proposes_the_rest(large, barn, lists, sync, caplog):
    caplog.set_level("INFO", "gateway.catalog")
    Provider.objects.update(sync="apply")
    shrunk = priced(prompt="0.0000025", context_length=None) | {"context_length": 64_000}
    lists.lists(shrunk, entry("acme/small"))

    report = sync()

    assert [change["kind"] for change in report["applied"]] == ["price"]
    assert [change["kind"] for change in report["proposed"]] == ["limits", "new_model"]
    assert report["waiting"] == 2
    assert [kind for kind, *_ in proposed("applied")] == ["price"]
    [applied] = CatalogProposal.objects.filter(state="applied")
    assert (applied.decided_by, applied.decided_at is None) == (None, False)
    offered = lookup.find_offer("acme/large")
    assert (offered.price.input_nanos, offered.price.output_nanos, offered.context_window) == (
        2_500_000_000,
        15_000_000_000,
        128_000,
    )
    assert list(Price.objects.order_by("pk").values_list("input_nanos", flat=True)) == [3_000_000_000, 2_500_000_000]
    assert LanguageModel.objects.count() == 1
    assert "applied by the rule, as barn lists it: acme/large, input $3.00 -> $2.50" in caplog.text


def test_what_has_waited_is_applied_when_the_operator_says_so(large, lists, sync):
    lists.lists(priced(prompt="0.0000025"))
    assert sync()["applied"] == []

    assert [change["kind"] for change in sync("--apply")["applied"]] == ["price"]
    assert proposed() == []
    assert sync("--apply")["applied"] == []
    assert Price.objects.count() == 2


def test_the_percentage_is_a_setting(large, lists, sync, settings):
    settings.CATALOG_SYNC_PRICE_PERCENT = 0
    lists.lists(priced(prompt="0.000002999"))
    assert sync("--apply")["applied"] == []

    settings.CATALOG_SYNC_PRICE_PERCENT = 1
    assert len(sync("--apply")["applied"]) == 1


def test_a_price_change_never_touches_a_running_request(api, alice, upstream: Upstream, lists, sync, monkeypatch):
    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url, api_key_env="SCRIPTED_UPSTREAM_KEY")
    make_model(provider, upstream_model="acme/large")
    upstream.will(stream(ROLE, words("Hello ", "you"), FINISH, usage(), DONE))
    running = rows.ask_streamed(api)  # admitted; nothing of it is read yet
    Provider.objects.update(base_url=lists.url)
    lists.lists(priced(prompt="0.0000035", completion="0.000018"))

    assert [change["kind"] for change in sync("scripted", "--apply")["applied"]] == ["price"]

    assert rows.text(rows.events(running)) == "Hello you"
    rows.assert_charged(alice, "reported", prompt=9, completion=2, nanos=9 * 3_000 + 2 * 15_000)
    Provider.objects.update(base_url=upstream.url)
    assert rows.text(rows.events(rows.ask_streamed(api))) == "Hello you"
    assert [done.cost_nanos for done in alice.completions.order_by("pk")] == [57_000, 9 * 3_500 + 2 * 18_000]


# --- The task and the command ------------------------------------------------------------------------------------


def test_the_task_asks_whom_it_should_and_one_failure_does_not_keep_the_others(lists):
    make_provider(lists, "a-broken", base_url="http://127.0.0.1:9")
    make_model(make_provider(lists, "b-applies", sync="apply"))
    make_model(make_provider(lists, "c-proposes"), "acme/small")
    make_provider(lists, "d-off", sync="off")
    make_provider(lists, "e-disabled", is_enabled=False)
    factories.make_provider("f-other", kind="anthropic", base_url=lists.url, sync="apply")
    lists.lists(priced(prompt="0.0000029"), priced("acme/small", prompt="0.0000029"))

    assert tasks.sync_catalog() == 2

    assert len(lists.asked) == 2
    assert [model for _, model, *_ in proposed("applied")] == ["acme/large"]
    assert [model for _, model, *_ in proposed()] == ["acme/small"]
    assert dict(UpstreamList.objects.values_list("provider", "failure")) == {
        "a-broken": "cannot be reached: ConnectionError",
        "b-applies": "",
        "c-proposes": "",
    }


def test_a_provider_that_is_named_is_asked_even_if_it_is_not_followed(large, lists, sync):
    Provider.objects.update(sync="off")
    lists.lists(priced(prompt="0.0000029"))

    assert [change["kind"] for change in sync("barn")["proposed"]] == ["price"]


def test_the_command_says_what_it_found_in_words(large, lists, capsys):
    lists.lists(
        priced(prompt="0.0000025", completion="0.00006") | {"expiration_date": "2027-01-31", "supported_parameters": ["tools"]},
        entry("acme/small"),
    )

    call_command("sync_catalog", "--apply")

    printed = capsys.readouterr()
    assert printed.err == f"Asking barn at {lists.url} ...\n"
    assert printed.out.splitlines() == [
        "barn lists 2 models: 1 applied, 2 proposed, 0 outdated; 2 wait for approval.",
        "  applied   acme/large: functions no -> yes",
        "  proposed  acme/large: input $3.00 -> $2.50, output $15.00 -> $60.00",
        "  proposed  acme/small: new: input $3.00, output $15.00, cached input $0.30, context window 128000,"
        " output at most 4096, images no, functions no",
        "  note      acme/large is said to end on 2027-01-31",
    ]


def test_nobody_to_ask_is_said(db, capsys):
    call_command("sync_catalog")

    assert capsys.readouterr().out == "No list was read.\n"


@pytest.mark.parametrize(
    ("slug", "reason"),
    [
        ("nobody", r"PROVIDER: there is no provider 'nobody'\."),
        ("echo", r"PROVIDER: echo is of the kind echo; only lists of the kind openai can be read\."),
    ],
)
def test_a_provider_that_cannot_be_asked_is_named(echo_model, slug, reason):
    with pytest.raises(CommandError, match=reason):
        call_command("sync_catalog", slug)


def test_a_list_that_an_older_reader_took_is_asked_for_anew(large, lists, sync):
    lists.lists(entry(), ETag='"v1"')
    sync()
    UpstreamList.objects.update(body="what nobody reads any more")

    assert sync()["isUnchanged"] is False
    assert "if-none-match" not in lists.asked[1][1]


def test_reading_is_pure_and_knows_both_shapes():
    body = json.dumps({"object": "list", "data": [bare("a"), entry("b")]}).encode()

    assert {name: each.maker for name, each in parse.parse_list(body).items()} == {"a": "acme", "b": "Acme"}
