"""The page of own provider keys: each is checked before it is saved, changed and removed by owners, and never shown again."""

import html
import json
import re

import pytest
from django.http import Http404
from django.test import RequestFactory

from billing.account_settings import own_tables
from billing.models import Account
from completions.management.commands import reencrypt_secrets
from completions.models import Completion, OwnKey, Provider
from completions.own_keys import acts
from completions.providers.access import keeper
from gateway_project.activity.models import Activity
from tests import factories, sessions
from tests.completions.own_key_rows import add_own_key
from tests.completions.rows import ask
from tests.pages.conftest import owner, signed_in  # noqa: F401  fixtures
from tests.upstream import KEY, refusal, reply, whole

pytestmark = pytest.mark.usefixtures("large")

PAGE = "/dashboard/settings/provider-keys/"
SECRET = "own-secret-0123456789-wxyz"
LIST = reply(b'{"data": []}')
FORM = {"provider": "scripted", "own_key_secret": SECRET, "models": "", "fallback": ""}


def words(page):
    assert page.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", page.content.decode()).split())


def lists_models(upstream):
    """Let it list its models for those who show one of the keys."""
    upstream.will(refusal(401))
    for secret in (SECRET, "another-secret-abcd"):
        upstream.will_for(f"Bearer {secret}", LIST)


def opened(key):
    return key.read_secret(key.provider.base_url)


def exported(account):
    [exported] = own_tables.readers()["own_keys"](account)
    return exported


def add(client, **fields):
    return client.post(f"{PAGE}new/", {**FORM, **fields}, follow=True)


def test_an_accepted_key_is_saved_sealed_and_shown_by_its_last_four(owner, alice, upstream, api):  # noqa: F811
    lists_models(upstream)
    page = add(owner)
    assert "The key of scripted is saved. scripted accepted the key." in words(page)
    asked, without_key = upstream.requests
    assert (asked.path, asked.headers["authorization"]) == ("/v1/models", f"Bearer {SECRET}")
    assert "authorization" not in without_key.headers
    assert "…wxyz" in words(owner.get(PAGE))
    key, account = OwnKey.objects.get(), Account.objects.get(pk=alice.pk)
    assert (opened(key), account.has_own_keys) == (SECRET, True)
    for shown in (page, owner.get(PAGE), owner.get(f"{PAGE}{key.pk}/"), owner.get("/dashboard/settings/activity/")):
        assert SECRET not in shown.content.decode()
    assert SECRET not in key.sealed_secret + json.dumps(list(Activity.objects.values()), default=str)
    assert [each.act for each in Activity.objects.order_by("pk")] == ["OWN_KEY_CHECKED", "OWN_KEY_ADDED"]


def test_a_refused_key_is_not_saved(owner, upstream):  # noqa: F811
    upstream.will(refusal(401))
    page = add(owner, models="acme/large", fallback="ours")
    assert "scripted refused the key (401)." in words(page)
    assert not OwnKey.objects.exists()
    assert "acme/large" in page.content.decode()  # what was typed is kept, but for the key
    assert SECRET not in page.content.decode()


def test_a_key_that_could_not_be_checked_is_saved_if_the_owner_wants_it(owner, upstream):  # noqa: F811
    upstream.will(refusal(503))
    page = add(owner)
    assert "answered 503, which says nothing about the key" in words(page)
    assert not OwnKey.objects.exists()
    assert 'type="checkbox" name="unchecked"' in page.content.decode()
    add(owner, unchecked="on")
    assert OwnKey.objects.get().check_words == "Not checked: scripted answered 503, which says nothing about the key."


def test_a_list_that_anyone_gets_says_nothing_about_the_key(owner, upstream):  # noqa: F811
    upstream.will(LIST)
    assert "scripted lists its models for anyone, which says nothing about the key." in words(add(owner))
    assert not OwnKey.objects.exists()
    add(owner, unchecked="on")
    assert OwnKey.objects.get().check_words.startswith("Not checked: scripted lists its models for anyone")


def test_models_that_the_provider_does_not_serve_are_refused(owner, upstream):  # noqa: F811
    assert "scripted serves no model acme/none." in words(add(owner, models="acme/large\nacme/none"))
    assert upstream.requests == []


def test_a_key_is_changed_without_being_typed_again_and_replaced(owner, upstream):  # noqa: F811
    lists_models(upstream)
    add(owner)
    key = OwnKey.objects.get()
    owner.post(f"{PAGE}{key.pk}/", {"own_key_secret": "", "models": "acme/large", "fallback": "ours"})
    key.refresh_from_db()
    assert (opened(key), key.model_ids, key.falls_back) == (SECRET, ["acme/large"], True)
    assert len(upstream.requests) == 2
    owner.post(f"{PAGE}{key.pk}/", {"own_key_secret": "another-secret-abcd", "models": "", "fallback": ""})
    key.refresh_from_db()
    assert (opened(key), key.hint, key.falls_back) == ("another-secret-abcd", "abcd", False)


def test_an_owner_chooses_what_limits_and_budgets_count(owner, alice, upstream):  # noqa: F811
    lists_models(upstream)
    add(owner)
    key = OwnKey.objects.get()
    assert (key.counts_price, exported(alice)["countsPrice"]) == (False, False)
    assert "Limits and budgets count Our fee alone" in words(owner.get(PAGE))
    owner.post(f"{PAGE}{key.pk}/", {"own_key_secret": "", "models": "", "fallback": "", "counts": "price"})
    key.refresh_from_db()
    assert (key.counts_price, exported(alice)["countsPrice"]) == (True, True)
    assert "Limits and budgets count Our fee and the provider's price" in html.unescape(words(owner.get(PAGE)))
    told = Activity.objects.latest("pk")
    assert (told.before["countsPrice"], told.after["countsPrice"]) == (False, True)
    form = owner.get(f"{PAGE}{key.pk}/").content.decode()
    assert re.search(r'name="counts" value="price"[^>]*checked', form)
    assert "Our fee and the provider's price: what the model costs here" in html.unescape(form)


@pytest.mark.parametrize(
    ("demanded", "regions", "promised", "is_left_out"),
    [
        ("", [], "", False),
        ("", ["eu"], "", False),
        ("deny", [], "", True),
        ("deny", ["eu"], "deny", False),
        ("zdr", [], "deny", True),
        ("zdr", [], "zdr", False),
    ],
)
def test_the_page_says_which_key_the_accounts_demands_leave_out(
    owner,  # noqa: F811
    alice,
    demanded,
    regions,
    promised,
    is_left_out,
):
    Account.objects.filter(pk=alice.pk).update(data_policy=demanded, data_regions=regions)
    add_own_key(alice, promised=promised)
    assert ("Not used The account demands more about data" in words(owner.get(PAGE))) is is_left_out


def test_an_owner_says_what_the_contract_with_the_provider_promises(owner, alice, upstream):  # noqa: F811
    lists_models(upstream)
    add(owner, promised="zdr")
    assert (OwnKey.objects.get().promised, exported(alice)["promised"]) == ("zdr", "zdr")
    assert "Your contract says It keeps nothing of prompts and replies" in words(owner.get(PAGE))
    form = owner.get(f"{PAGE}{OwnKey.objects.get().pk}/").content.decode()
    assert re.search(r'name="promised" value="zdr"[^>]*checked', form)
    assert "Select a valid choice" in words(owner.post(f"{PAGE}{OwnKey.objects.get().pk}/", {**FORM, "promised": "all"}))


def test_the_page_of_a_request_tells_the_providers_price_and_whether_it_counts(owner, upstream, api):  # noqa: F811
    lists_models(upstream)
    add(owner, counts="price")
    upstream.will_for(f"Bearer {SECRET}", whole())
    ask(api)
    page = html.unescape(words(owner.get(f"/dashboard/requests/{Completion.objects.get().pk}/")))
    assert "Provider's price $0.000057, counts on limits and budgets" in page


@pytest.mark.parametrize(
    "now", [{"passes_unknown_fields": True}, {"access": {"auth": {"type": "azure"}}}, {"kind": "echo"}, {"is_enabled": False}]
)
def test_a_provider_that_takes_no_keys_any_more_is_shown_none(owner, alice, upstream, now):  # noqa: F811
    lists_models(upstream)
    add(owner)
    keepers = dict(keeper.keepers)
    Provider.objects.filter(pk="scripted").update(**now)
    key = OwnKey.objects.get()
    page = owner.post(f"{PAGE}{key.pk}/", {"own_key_secret": "another-secret-abcd", "models": "", "fallback": ""})
    assert "scripted takes no keys of accounts now." in words(page)
    assert OwnKey.objects.get().sealed_secret == key.sealed_secret
    assert (len(upstream.requests), keeper.keepers) == (2, keepers)
    owner.post(f"{PAGE}{key.pk}/remove/")
    assert not OwnKey.objects.exists()


def test_a_key_that_is_removed_meanwhile_is_not_found(owner, alice, upstream):  # noqa: F811
    lists_models(upstream)
    add(owner)
    key = OwnKey.objects.get()
    request = RequestFactory().post(PAGE)
    key.delete()
    with pytest.raises(Http404):
        acts.save(request, alice, key.provider, "", {"falls_back": True})
    assert not OwnKey.objects.exists()


def test_a_removed_key_is_gone_and_ours_serves(owner, alice, upstream, api):  # noqa: F811
    lists_models(upstream)
    add(owner)
    key = OwnKey.objects.get()
    assert "at the full price" in words(owner.get(f"{PAGE}{key.pk}/remove/"))
    owner.post(f"{PAGE}{key.pk}/remove/")
    assert not OwnKey.objects.exists()
    assert not Account.objects.get(pk=alice.pk).has_own_keys
    assert Activity.objects.latest("pk").act == "OWN_KEY_REMOVED"
    upstream.will(whole())
    assert "x-gateway-own-key" not in ask(api)
    assert upstream.requests[-1].headers["authorization"] == f"Bearer {KEY}"


def test_the_password_is_asked_for_first_and_the_secret_is_in_no_page_meanwhile(owner, upstream):  # noqa: F811
    sessions.expire(owner)
    page = owner.post(f"{PAGE}new/")
    assert "Confirm" in words(page)
    page = add(owner)
    assert "Confirm" in words(page)
    assert SECRET not in page.content.decode()
    assert not OwnKey.objects.exists()
    assert upstream.requests == []


def test_only_owners_open_the_page(alice, client):
    for role in ("DEVELOPER", "BILLING", "VIEWER"):
        user = factories.make_user(f"{role.lower()}@example.org")
        factories.add_member(alice, user, role)
        sessions.sign_in(client, user)
        assert client.get(PAGE).status_code == client.post(f"{PAGE}new/", FORM).status_code == 403
    assert not OwnKey.objects.exists()


def test_no_owner_reaches_the_key_of_another_account(owner, charlie):  # noqa: F811
    key = OwnKey(account=charlie, provider_id="scripted")
    key.seal(SECRET)
    key.save()
    for path in (f"{PAGE}{key.pk}/", f"{PAGE}{key.pk}/remove/"):
        assert owner.get(path).status_code == owner.post(path).status_code == 404
    assert OwnKey.objects.filter(pk=key.pk).exists()


def test_an_export_and_the_erasure_know_own_keys(owner, alice, upstream):  # noqa: F811
    lists_models(upstream)
    add(owner)
    assert (exported(alice)["provider"], exported(alice)["endsWith"]) == ("scripted", "wxyz")
    assert SECRET not in json.dumps(exported(alice))
    own_tables.delete_rows(alice)
    assert not OwnKey.objects.exists()


def test_own_keys_are_reencrypted(owner, upstream, settings):  # noqa: F811
    lists_models(upstream)
    add(owner)
    before = OwnKey.objects.get()
    settings.ENCRYPTION_KEYS = ["6xMCDbTCf8dQyUqPJmnTSk5M9ek-m6CYpIHMJ8_jSq4=", *settings.ENCRYPTION_KEYS]
    reencrypt_secrets.reencrypt_all(lambda line: None)
    after = OwnKey.objects.get()
    assert after.sealed_secret != before.sealed_secret
    assert opened(after) == SECRET


def test_the_page_of_a_request_tells_the_fee_and_whose_key_served(owner, upstream, api):  # noqa: F811
    lists_models(upstream)
    add(owner, fallback="")
    upstream.will_for(f"Bearer {SECRET}", refusal(401))
    ask(api)
    page = words(owner.get(f"/dashboard/requests/{Completion.objects.get().pk}/"))
    assert "refused your own key (status 401)" in page
