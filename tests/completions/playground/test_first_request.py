"""The page that makes an account's first key, and sends the first request with it."""

import logging
import re
from concurrent.futures import ThreadPoolExecutor
from html import unescape

import pytest
from django.db import connection

from billing.models import LedgerEntry, Role
from completions.models import Completion
from gateway_project.activity.models import Activity
from gateway_project.text import dollars
from keys.models import ApiKey
from tests import chat, factories
from tests.completions.playground.forms import STREAM
from tests.conftest import client_for
from tests.pages.conftest import owner_of, signed_in
from tests.pages.dashboard_pages import SECRET
from tests.upstream import DONE, FINISH, ROLE, running, stream, usage, words

PATH = "/dashboard/start/"


@pytest.fixture(autouse=True)
def _model(db):
    factories.make_model("demo/echo", name="Echo")


@pytest.fixture
def owner(alice):
    return signed_in(owner_of(alice))


def form(account, **fields):
    return {"account": str(account.pk), **fields}


def text(reply):
    return unescape(" ".join(re.sub(r"<[^>]+>", " ", reply.content.decode()).split()))


def secrets(reply):
    return set(SECRET.findall(reply.content.decode()))


def test_to_look_at_the_page_makes_nothing(owner):
    page = text(owner.get(PATH))
    assert "We send “Say hello in three languages.” to Echo" in page
    assert "can spend $5.00 per month" in page
    assert "Create a key and send the request" in page
    assert not ApiKey.objects.exists()
    assert not Completion.objects.exists()


def test_one_form_makes_a_key_and_shows_the_reply_its_cost_and_what_is_left(owner, alice):
    page = owner.post(PATH, form(alice))
    assert page.status_code == 200
    assert "no-store" in page["Cache-Control"]
    assert '<pre class="answer"' in page.content.decode()
    assert ">Say hello in three languages.</pre>" in page.content.decode()
    key, completion, entry = ApiKey.objects.get(), Completion.objects.get(), LedgerEntry.objects.get(type="USAGE_DEBIT")
    assert (key.name, key.spending_limit_cents, key.spending_type, key.created_by) == (
        "First key",
        500,
        "RECURRING",
        owner_of(alice),
    )
    assert (completion.key_id, entry.reference) == (key.pk, completion.pk)
    assert (
        f"Cost {dollars.format_usd(-entry.amount_nanos)} Balance after it {dollars.format_usd(entry.balance_after_nanos)}"
        in text(page)
    )
    assert f'href="/dashboard/requests/{completion.pk}/"' in page.content.decode()


def test_the_code_of_each_language_has_the_secret_which_works(owner, alice):
    page = owner.post(PATH, form(alice, streams="on"))
    [secret] = secrets(page)
    codes = dict(re.findall(r'<code id="code-(\w+)"\s+data-once>(.*?)</code>', page.content.decode(), re.DOTALL))
    assert set(codes) == {"curl", "python", "typescript"}
    for code in map(unescape, codes.values()):
        assert secret in code
        assert "GATEWAY_API_KEY" not in code
        assert "demo/echo" in code
        assert "Say hello in three languages." in code
        assert "http://testserver/v1" in code
    assert chat.ask(client_for(secret)).status_code == 200


def test_the_secret_is_shown_once_and_is_in_no_log_address_or_session(owner, alice, caplog):
    caplog.set_level(logging.DEBUG)
    page = owner.post(PATH, form(alice, streams="on"))
    [secret] = secrets(page)
    again = owner.post(PATH, form(alice))
    assert secrets(again) == set()
    assert "Its secret was shown when the key was created." in text(again)
    assert secret not in caplog.text
    assert secret not in str(dict(owner.session))
    assert secret not in str(list(Activity.objects.values()))
    assert ApiKey.objects.count() == 1


def test_with_scripts_the_request_is_streamed_with_the_key_of_the_page(owner, alice):
    page = owner.post(PATH, form(alice, streams="on"))
    assert 'data-begins="/dashboard/start/send/"' in page.content.decode()
    assert not Completion.objects.exists()  # the page sends it
    events = chat.events(owner.post(f"{PATH}send/", form(alice), **STREAM))
    assert events[-1] == "[DONE]"
    entry = LedgerEntry.objects.get(type="USAGE_DEBIT")
    assert Completion.objects.get().key_id == ApiKey.objects.get().pk
    charge = owner.get(f"/dashboard/playground/charge/{entry.reference}/").json()
    told = (charge["costInDollars"], charge["balanceInDollars"])
    assert told == tuple(map(dollars.format_plain, (-entry.amount_nanos, entry.balance_after_nanos)))


def test_forms_at_once_make_one_key(transactional_db, alice):
    members = [signed_in(owner_of(alice)) for _ in range(4)]

    def send(member):
        try:
            return secrets(member.post(PATH, form(alice)))
        finally:
            connection.close()

    with ThreadPoolExecutor(len(members)) as threads:
        shown = list(threads.map(send, members))
    assert len([secret for secret in shown if secret]) == ApiKey.objects.count() == 1


def test_without_credit_the_key_is_there_and_the_page_leads_to_billing(bob):
    page = signed_in(owner_of(bob)).post(PATH, form(bob))
    assert secrets(page)
    assert 'href="/dashboard/billing/">Add credit' in page.content.decode()
    assert "Try again" in text(page)
    assert not LedgerEntry.objects.exists()


def test_the_model_is_the_cheapest_that_answers_and_the_echo_only_where_there_is_no_other(owner, alice):
    with running() as upstream:
        provider = factories.make_provider("acme", kind="openai", base_url=upstream.url)
        factories.make_model("acme/large", provider=provider, output="25")
        factories.make_model("acme/small", name="Small", provider=provider, output="20")
        assert "to Small and show you" in text(owner.get(PATH))
        upstream.will(stream(ROLE, words("Hello"), FINISH, usage(), DONE))
        owner.post(PATH, form(alice, streams="on"))
        assert chat.events(owner.post(f"{PATH}send/", form(alice), **STREAM))[-1] == "[DONE]"
        assert Completion.objects.get().model_id == "acme/small"


def test_whoever_may_not_make_keys_or_has_a_closed_account_gets_no_key(db, alice, owner):
    viewer = factories.make_user("viewer@example.org")
    factories.add_member(account=alice, user=viewer, role=Role.VIEWER)
    assert signed_in(viewer).post(PATH, form(alice)).status_code == 403
    alice.is_active = False
    alice.save()
    assert "The account is closed" in text(owner.post(PATH, form(alice)))
    assert "The account is closed" in text(
        owner.post("/dashboard/playground/", {"model": "demo/echo", "prompt": "x", **form(alice)})
    )
    assert not ApiKey.objects.exists()


def test_a_form_of_an_account_that_is_no_longer_selected_makes_nothing(owner, alice, charlie):
    assert "The selected account is now Alice." in text(owner.post(PATH, form(charlie)))
    assert owner.post(f"{PATH}send/", form(alice), **STREAM).status_code == 404  # no key was made
    assert not ApiKey.objects.exists()
