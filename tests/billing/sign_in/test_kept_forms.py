"""A form that is sent after its session has ended: kept, and offered once its sender has signed in again."""

import html
import re

import pytest
from django.contrib.sessions.models import Session
from django.test import Client

from billing.models import AccountAlert, WebhookEndpoint
from billing.sign_in import kept_forms, limits
from keys.models import ApiKey
from tests import factories, sessions
from tests.pages.conftest import session_texts

NEW_KEY = "/dashboard/keys/new/"
LOGIN = "/accounts/login/"
ALICE = {"login": "alice@example.org", "password": factories.PASSWORD}


@pytest.fixture
def browser(alice):
    """A browser in which alice has signed in, and whose session has ended. It proves each form by its token."""
    client = Client(enforce_csrf_checks=True)
    sign_in(client)
    Session.objects.all().delete()
    return client


def sign_in(client, path=LOGIN, **form):
    return post(client, path, **(form or ALICE))


def post(client, path, **form):
    client.get(LOGIN)
    return client.post(path, {**form, "csrfmiddlewaretoken": client.cookies["csrftoken"].value})


def form_of(account, **changed):
    return {"name": "“laptop” <b>", "spending_type": "NONE", "account": str(account.pk), **changed}


def offered(reply):
    """Return the fields of the page that offers what was kept, without its token; None on any other page."""
    shown = reply.content.decode()
    if "Continue where you left off" not in shown:
        return None
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', shown)
    return {name: html.unescape(value) for name, value in found if name != "csrfmiddlewaretoken"}


def token_of(reply):
    return re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', reply.content.decode())[1]


def test_what_was_typed_survives_a_new_sign_in_and_is_sent_by_a_click_and_the_password(browser, alice):
    led = post(browser, NEW_KEY, **form_of(alice))
    assert led["Location"] == f"{LOGIN}?next={NEW_KEY}"
    assert sign_in(browser, led["Location"])["Location"] == NEW_KEY
    page = browser.get(NEW_KEY)
    assert offered(page) == form_of(alice)
    assert "<dt>Name</dt><dd>“laptop” &lt;b&gt;</dd>" in page.content.decode()
    assert "no-store" in page["Cache-Control"]
    assert not ApiKey.objects.exists()
    sent = {**offered(page), "csrfmiddlewaretoken": token_of(page)}
    assert browser.post(NEW_KEY, {**sent, "csrfmiddlewaretoken": "x" * 64}).status_code == 403
    asked = browser.post(NEW_KEY, sent)  # somebody else may have planted the form, for the next who signs in
    assert "Confirm with your password" in asked.content.decode()
    assert not ApiKey.objects.exists()
    made = browser.post(NEW_KEY, {**sent, "current_password": factories.PASSWORD})
    assert "is ready" in made.content.decode()
    assert ApiKey.objects.get().name == "“laptop” <b>"
    assert offered(browser.get(NEW_KEY)) is None
    assert browser.session.get_expiry_age() > kept_forms.KEPT_SECONDS


def test_what_was_kept_can_be_discarded(browser, alice):
    led = post(browser, NEW_KEY, **form_of(alice))
    sign_in(browser, led["Location"])
    assert f'href="{NEW_KEY}"' in browser.get(NEW_KEY).content.decode()
    assert "Create key" in browser.get(NEW_KEY).content.decode()
    assert not ApiKey.objects.exists()


def test_a_form_that_does_not_prove_its_page_is_not_kept(browser, alice):
    assert browser.post(NEW_KEY, form_of(alice)).status_code == 403
    sign_in(browser)
    assert offered(browser.get(NEW_KEY)) is None


def test_passwords_codes_and_secrets_are_never_kept(browser, alice):
    _, secret = factories.make_key(alice, "laptop")
    changed = {"old_password": "the old one", "new_password1": "a new one", "current_code": "123456", "note": "kept"}
    led = post(browser, "/dashboard/password/", **changed)
    assert not any(value in session_texts() for value in ("the old one", "a new one", "123456"))
    sign_in(browser, led["Location"])
    assert offered(browser.get("/dashboard/password/")) == {"note": "kept"}
    Session.objects.all().delete()
    for form in ({"secret": "s3"}, {"api_key": "sk-1", "slug": "acme"}, form_of(alice, name=f"leaked {secret}")):
        assert post(browser, NEW_KEY, **form).status_code == 302
        assert not Session.objects.exists()


def test_whoever_did_not_sign_in_last_with_this_browser_is_offered_nothing(browser, alice, charlie):
    for form in ({"login": "charlie@example.org", "password": factories.PASSWORD}, ALICE):
        sign_in(browser, **form)
        Session.objects.all().delete()
    led = post(browser, NEW_KEY, **form_of(alice))
    sign_in(browser, led["Location"], login="charlie@example.org", password=factories.PASSWORD)
    assert offered(browser.get(NEW_KEY)) is None
    assert "laptop" not in session_texts()


def test_a_form_that_says_nothing_of_its_account_is_offered_to_nobody_who_has_several(browser, alice, charlie):
    factories.add_member(account=charlie, user=alice.members.get(), role="OWNER")
    path = "/dashboard/alerts/threshold/"
    for form, kept in (({"threshold": "7"}, None), (form_of(charlie), form_of(charlie))):
        led = post(browser, path, **form)
        sign_in(browser, led["Location"])
        assert offered(browser.get(path)) == kept
        Session.objects.all().delete()


def test_a_form_is_kept_for_half_an_hour_and_of_some_size(browser, alice, monkeypatch):
    led = post(browser, NEW_KEY, **form_of(alice))
    sign_in(browser, led["Location"])
    kept = browser.session[kept_forms._FORM]
    sessions.update(browser, kept_form={**kept, "at": kept["at"] - kept_forms.KEPT_SECONDS - 1})
    assert offered(browser.get(NEW_KEY)) is None
    Session.objects.all().delete()
    post(browser, NEW_KEY, **form_of(alice, name="x" * kept_forms.CHARACTERS_MAX))
    assert not Session.objects.exists()
    monkeypatch.setitem(limits.RATES, "address", limits.Rate(1, 3_600))
    for number in range(3):
        assert post(Client(enforce_csrf_checks=True), NEW_KEY, name=str(number)).status_code == 302
    assert Session.objects.count() <= 1


def test_an_act_that_asks_for_the_password_anew_still_does(browser, alice):
    path = "/dashboard/settings/close/"
    led = post(browser, path, name=alice.name)
    sign_in(browser, led["Location"])
    page = browser.get(path)
    asked = browser.post(path, {**offered(page), "csrfmiddlewaretoken": token_of(page)})
    assert "Confirm with your password" in asked.content.decode()
    alice.refresh_from_db()
    assert alice.is_active


def test_a_page_that_only_takes_forms_offers_them_too(browser, alice):
    endpoint = WebhookEndpoint.objects.create(account=alice, url="https://example.org/", sealed_secret="sealed")
    path = f"/dashboard/alerts/webhooks/{endpoint.pk}/test/"
    led = post(browser, path, a="b")
    sign_in(browser, led["Location"])
    assert offered(browser.get(path)) == {"a": "b"}
    assert not AccountAlert.objects.exists()
