"""How public pages and those of owners look to everybody: wide and narrow, light and dark, with a screen reader. In Chromium.

Each page is visited once, in the light. ``make faults`` visits all of them in the dark, too.
"""

from io import StringIO

import pytest
from django.core.management import call_command
from django.db import transaction

from billing.models import AccountWarning, WarningDelivery, WebhookEndpoint
from billing.warnings import deliveries
from billing.warnings.deliveries import Attempt
from completions.public import facts
from gateway_project.web import public_page
from keys import lifecycle, management_keys
from tests import factories, usage
from tests.browser import faults, faults_in_the_dark, faults_on_a_dark_phone, found_on, sign_in
from tests.pages.conftest import owner_of
from tests.pages.test_dashboard import use

DARK = ["/rankings", "/dashboard/alerts/"]  # together they have text in, or on, each colour that colours.css names for text
PUBLIC = [
    "/",
    "/models",
    "/models?images=on",
    "/models/acme/large",
    "/docs",
    "/docs/reference",
    "/docs/reference?q=cost",
    "/status",
    "/rankings",
    "/rankings/acme/large",
    "/accounts/login/",
    "/accounts/signup/",
    "/accounts/password/reset/",
]
OWNERS = [
    "/dashboard/",
    "/dashboard/usage/",
    "/dashboard/usage/?by=model",
    "/dashboard/requests/",
    "/dashboard/playground/",
    "/dashboard/keys/",
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
    "/dashboard/billing/",
    "/dashboard/billing/details/",
    "/dashboard/billing/top-up/",
    "/dashboard/alerts/",
    "/dashboard/alerts/threshold/",
    "/dashboard/alerts/webhooks/new/",
    "/dashboard/alerts/webhooks/{webhook}/",
    "/dashboard/members/",
    "/dashboard/members/invite/",
    "/dashboard/settings/",
    "/dashboard/settings/activity/",
    "/dashboard/settings/emails/",
    "/dashboard/settings/export/",
    "/dashboard/settings/close/",
    "/dashboard/password/",
    "/accounts/email/",
    "/accounts/2fa/",
    "/accounts/2fa/totp/activate/",
    "/accounts/2fa/webauthn/add/",
    "/accounts/sessions/",
    "/accounts/3rdparty/",
]


@pytest.fixture
def owners_paths(transactional_db, alice):
    """The pages of an owner of two accounts, one of which has keys, entries and long names."""
    factories.make_account("Alice and daughters", owner=owner_of(alice))
    call_command("load_catalog", stdout=StringIO())
    factories.make_model("acme/large")
    facts.forget()
    public_page.forget()
    key, _ = factories.make_key(alice, "laptop")
    lifecycle.set_spending_limit(key, limit_cents=500, type="RECURRING", period="DAILY")
    factories.make_key(alice, "W" * 100, limit_cents=922_337_203_685, type="FIXED")
    usage.buy(alice, 900_000_000_000, "pi_1")
    with transaction.atomic():
        use(key, cost_nanos=1_234_567_891)
    manager, _ = management_keys.issue(alice, name="terraform", created_by=owner_of(alice))
    webhook = warn(alice)
    return [path.format(key=key.pk, manager=manager.pk, webhook=webhook.pk) for path in OWNERS]


def warn(account):
    """Write a warning that arrived by mail and failed at a webhook. Return the webhook."""
    sealed = {"sealed_secret": "sealed", "url": f"https://{'w' * 60}.example.org/hooks/7f3a"}
    endpoint = WebhookEndpoint.objects.create(account=account, **sealed)
    data = {"threshold_nanos": 5_000_000_000, "balance_nanos": 4_982_310_000}
    warning = AccountWarning.objects.create(account=account, kind="BALANCE_LOW", data=data)
    for way, attempt in (
        ({"endpoint": endpoint}, Attempt(812, "it answered 500", 500)),
        ({"email": "a@example.org"}, Attempt(9)),
    ):
        delivery = WarningDelivery.objects.create(warning=warning, next_try_at=warning.created_at, **way)
        deliveries.record(delivery, attempt)
    endpoint.refresh_from_db()
    return endpoint


def test_everybody_can_use_the_pages(open_page, owners_paths):
    page = open_page()
    assert found_on(page, PUBLIC, faults) == {}
    sign_in(page, "alice@example.org")
    assert found_on(page, owners_paths, faults) == {}


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
