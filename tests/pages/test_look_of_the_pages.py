"""How public pages and those of owners look to everybody: wide and narrow, light and dark, with a screen reader. In Chromium.

Each page is visited once, in the light. ``make faults`` visits all of them in the dark, too.
"""

from io import StringIO

import pytest
from django.core.management import call_command
from django.db import transaction
from django.urls import URLResolver, get_resolver, resolve

from billing.alerts import deliveries
from billing.alerts.deliveries import Attempt
from billing.models import AccountAlert, AlertDelivery, WebhookEndpoint
from completions.models import OwnKey
from completions.public import facts
from gateway_project.web import public_page
from keys import lifecycle, management_keys
from keys.models import Run
from keys.refusal_history import collector
from keys.spending_limit import SpendingLimit
from tests import chat, factories, usage
from tests.browser import faults, faults_in_the_dark, faults_on_a_dark_phone, found_on, sign_in
from tests.conftest import client_for
from tests.keys.refusal_history.conftest import _nothing_collected
from tests.pages.conftest import owner_of
from tests.pages.dashboard_pages import use

__all__ = ["_nothing_collected"]

DARK = [
    "/rankings",
    "/docs",
    "/dashboard/alerts/",
]  # together they have text in, or on, each colour that it has for text
PUBLIC = [
    "/",
    "/models",
    "/models?images=on",
    "/models/acme/large",
    "/docs",
    "/docs/reference",
    "/docs/changes",
    "/docs/reference/createChatCompletion",
    "/docs/reference?q=cost",
    "/status",
    "/rankings",
    "/rankings/acme/large",
    "/accounts/login/",
    "/accounts/signup/",
    "/accounts/password/reset/",
    "/accounts/inactive/",
    "/mails/",
]
OWNERS = [
    "/dashboard/",
    "/dashboard/usage/",
    "/dashboard/usage/?by=model",
    "/dashboard/requests/",
    "/dashboard/runs/",
    "/dashboard/runs/{key}/nightly/",
    "/dashboard/usage/?by=run",
    "/dashboard/budgets/",
    "/dashboard/budgets/new/",
    "/dashboard/budgets/{budget}/",
    "/dashboard/budgets/{budget}/delete/",
    "/dashboard/start/",
    "/dashboard/playground/",
    "/dashboard/keys/",
    "/dashboard/keys/lifetime/",
    "/dashboard/keys/find/",
    "/dashboard/keys/{key}/",
    "/dashboard/keys/{key}/change/",
    "/dashboard/keys/{key}/rotate/",
    "/dashboard/keys/new/",
    "/dashboard/keys/{key}/limit/",
    "/dashboard/keys/{key}/revoke/",
    "/dashboard/keys/management/",
    "/dashboard/keys/management/new/",
    "/dashboard/keys/management/{manager}/revoke/",
    "/dashboard/ledger/",
    "/dashboard/ledger/{month}/",
    "/dashboard/requests/{completion}/",
    "/dashboard/requests/?status=refused",
    "/dashboard/usage/?by=key",
    "/dashboard/billing/",
    "/dashboard/billing/details/",
    "/dashboard/billing/top-up/",
    "/dashboard/billing/payments/{payment}/",
    "/dashboard/billing/payments/{payment}/receipt/",
    "/dashboard/alerts/",
    "/dashboard/alerts/threshold/",
    "/dashboard/alerts/webhooks/new/",
    "/dashboard/alerts/webhooks/{webhook}/",
    "/dashboard/alerts/webhooks/{webhook}/rotate/",
    "/dashboard/alerts/webhooks/{webhook}/again/",
    "/dashboard/alerts/webhooks/{webhook}/delete/",
    "/dashboard/members/",
    "/dashboard/members/invite/",
    "/dashboard/members/{member}/role/",
    "/dashboard/members/{member}/end/",
    "/dashboard/settings/",
    "/dashboard/settings/activity/",
    "/dashboard/settings/emails/",
    "/dashboard/settings/data/",
    "/dashboard/settings/name/",
    "/dashboard/settings/export/",
    "/dashboard/settings/provider-keys/",
    "/dashboard/settings/provider-keys/new/",
    "/dashboard/settings/provider-keys/{own_key}/",
    "/dashboard/settings/provider-keys/{own_key}/remove/",
    "/dashboard/settings/close/",
    "/dashboard/support-requests/",
    "/dashboard/password/",
    "/accounts/email/",
    "/accounts/2fa/",
    "/accounts/2fa/totp/activate/",
    "/accounts/2fa/webauthn/add/",
    "/accounts/sessions/",
    "/accounts/3rdparty/",
]
# Pages that are looked at where they belong to what people do there: ``tests/pages/test_*_in_a_browser.py``.
ON_THE_WAY = {
    *("join", "sign-up-link", "password-link", "account_confirm_email", "undo-address", "demo-payment"),
    *(
        "mfa_authenticate",
        "mfa_deactivate_totp",
        "mfa_view_recovery_codes",
        "mfa_generate_recovery_codes",
        "mfa_remove_webauthn",
    ),
}
# What is no page: it redirects, is a file, answers a program, or is only posted to.
NOT_PAGES = {
    *("sign-in", "sign-out", "choose-account", "account_logout", "account_change_password", "mfa_list_webauthn"),
    *("revoke-invitation", "cancel-payment", "retry-payment", "undo-closing", "pause-webhook", "test-webhook"),
    *("send-delivery-again", "pause-key", "resume-key", "end-former-secrets", "end-session", "mfa_login_webauthn"),
    *("withdraw-request", "send-first-request"),
    *("google_login", "google_callback", "github_login", "github_callback", "playground-charge", "requests-csv"),
    *(
        "openapi",
        "invoice",
        "credit-note",
        "export-file",
        "activity-csv",
        "statement-csv",
        "usage-csv",
        "usage-focus",
        "sitemap",
        "status-feed",
        "api-changes-feed",
        "apply-key-lifetime",
    ),
}


@pytest.fixture
def owners_paths(transactional_db, alice):
    """The pages of an owner of two accounts, one of which has keys, entries and long names."""
    factories.make_account("Alice and daughters", owner=owner_of(alice))
    call_command("load_catalog", stdout=StringIO())
    factories.make_model("acme/large")
    facts.forget()
    public_page.forget()
    key, secret = factories.make_key(alice, "laptop")
    lifecycle.set_spending_limit(key, SpendingLimit(500, "RECURRING", "DAILY"))
    factories.make_key(alice, "W" * 100, limit_cents=922_337_203_685, type="FIXED")
    payment = usage.pay(alice, 900_000_000_000, "pi_1")
    asked = chat.ask(client_for(secret), model="acme/large", user="u" * 200, metadata={"team": "W" * 100})
    assert (asked.status_code, chat.ask(client_for(secret), model="acme/none").status_code) == (200, 404)
    collector.write()
    budget = alice.budgets.create(scope="TAG", tag="w" * 40, amount_cents=5_000, action="STOP")
    Run.objects.create(key=key, name="nightly", budget_nanos=2_500_000_000, spent_nanos=2_100_000_000, requests=7)
    Run.objects.create(key=key, name="w" * 100, budget_nanos=2_500_000_000, held_nanos=2_500_000_000)
    with transaction.atomic():
        use(key, cost_nanos=1_234_567_891)
    manager, _ = management_keys.issue(alice, name="terraform", created_by=owner_of(alice))
    ids = {
        "key": key.pk,
        "budget": budget.pk,
        "manager": manager.pk,
        "webhook": warn(alice).pk,
        "own_key": OwnKey.objects.create(account=alice, provider_id="openai", hint="wxyz", model_ids=["w" * 200] * 3).pk,
        "completion": asked.json()["id"],
        "month": f"{payment.created_at:%Y/%-m}",
        "payment": payment.pk,
        "member": factories.add_member(account=alice, user=factories.make_user(f"{'w' * 60}@example.org"), role="VIEWER").pk,
    }
    return [path.format(**ids) for path in OWNERS]


def warn(account):
    """Write an alert that arrived by mail and failed at a webhook. Return the webhook."""
    sealed = {"sealed_secret": "sealed", "url": f"https://{'w' * 60}.example.org/hooks/7f3a"}
    endpoint = WebhookEndpoint.objects.create(account=account, **sealed)
    data = {"threshold_nanos": 5_000_000_000, "balance_nanos": 4_982_310_000}
    alert = AccountAlert.objects.create(account=account, kind="BALANCE_LOW", data=data)
    for way, attempt in (
        ({"endpoint": endpoint}, Attempt(812, "it answered 500", 500)),
        ({"email": "a@example.org"}, Attempt(9)),
    ):
        delivery = AlertDelivery.objects.create(alert=alert, next_try_at=alert.created_at, **way)
        deliveries.record(delivery, attempt)
    endpoint.refresh_from_db()
    return endpoint


def test_everybody_can_use_the_pages(open_page, owners_paths):
    page = open_page()
    assert found_on(page, PUBLIC, faults) == {}
    sign_in(page, "alice@example.org")
    assert found_on(page, owners_paths, faults) == {}


def test_every_page_is_looked_at():
    ids = {"key": "k", "budget": "b", "manager": "m", "completion": "c", "month": "2026/11", "member": 1}
    ids |= dict.fromkeys(("webhook", "payment", "own_key"), "019aaf3e-2bc4-7000-8000-000000000000")
    looked_at = {resolve(path.format(**ids).partition("?")[0]).url_name for path in (*PUBLIC, *OWNERS)}
    names = set(names_of(get_resolver())) - looked_at - ON_THE_WAY - NOT_PAGES
    assert names == set()


def names_of(resolver):
    """Return the names of all paths but those of the API and of the admin."""
    for each in resolver.url_patterns:
        if isinstance(each, URLResolver):
            yield from [] if str(each.pattern).startswith(("admin", "api", "v1")) else names_of(each)
        elif each.name:
            yield each.name


def test_every_colour_of_the_dark_can_be_read(open_page, owners_paths):
    page = open_page()
    sign_in(page, "alice@example.org")
    assert found_on(page, DARK, faults_in_the_dark) == {}


@pytest.mark.long
def test_everybody_can_use_all_pages_in_the_dark_and_on_a_dark_phone(open_page, owners_paths):
    page = open_page()
    assert found_on(page, PUBLIC, faults_on_a_dark_phone) == {}
    sign_in(page, "alice@example.org")
    assert found_on(page, owners_paths, faults_on_a_dark_phone) == {}
