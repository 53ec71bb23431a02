"""How public pages and those of owners look to everybody: light, dark, wide, narrow, with a screen reader. In Chromium."""

from io import StringIO

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.core.management import call_command
from django.db import transaction
from django.test import Client

from billing.models import AccountWarning, WarningDelivery, WebhookEndpoint
from billing.warnings import deliveries
from billing.warnings.deliveries import Attempt
from completions.public import facts
from gateway_project.web import public_page
from keys import lifecycle
from tests import factories, sessions, usage
from tests.browser import fits, picture
from tests.pages.conftest import owner_of
from tests.pages.test_dashboard import use

# Without "preload" it does not fetch style sheets itself, which it does at wrong addresses.
EVERY_RULE = {"resultTypes": ["violations"], "preload": False}
CONTRAST = {**EVERY_RULE, "runOnly": ["color-contrast"]}
IDS = "[...document.querySelectorAll('[id]')].map(element => element.id)"
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
PUBLIC = [
    "/",
    "/models",
    "/models?images=on",
    "/models/acme/large",
    "/docs",
    "/docs?q=cost",
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
    "/dashboard/ledger/",
    "/dashboard/billing/",
    "/dashboard/billing/details/",
    "/dashboard/billing/top-up/",
    "/dashboard/warnings/",
    "/dashboard/warnings/threshold/",
    "/dashboard/warnings/webhooks/new/",
    "/dashboard/warnings/webhooks/{webhook}/",
    "/dashboard/members/",
    "/dashboard/members/invite/",
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
    webhook = warn(alice)
    return [path.format(key=key.pk, webhook=webhook.pk) for path in OWNERS]


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


def faults(page, path):
    """Return what is wrong with a page: with all rules on a wide screen, with contrast in the dark, with all on a phone."""
    page.set_viewport_size(WIDE)
    page.emulate_media(color_scheme="light")
    page.goto(path)
    ids = page.evaluate(IDS)
    found = [] if len(ids) == len(set(ids)) else ["an id twice"]
    for scheme, size, rules in (("light", WIDE, EVERY_RULE), ("dark", WIDE, CONTRAST), ("dark", PHONE, EVERY_RULE)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(size)
        picture(page, f"page-{scheme}-{size['width']}-{path.strip('/').replace('/', '-')[:40]}")
        violations = Axe().run(page, options=rules).response["violations"]
        found += [f"{scheme} {size['width']}: {each['id']} {each['nodes'][0]['html']}" for each in violations]
        found += [] if fits(page) else [f"wider than {size['width']}"]
    return found


def test_everybody_can_use_the_pages(open_page, owners_paths, alice):
    page = open_page(reduced_motion="reduce")  # else axe sees colours on their way from light to dark
    assert {path: faults(page, path) for path in PUBLIC} == dict.fromkeys(PUBLIC, [])
    client = Client()
    sessions.sign_in(client, owner_of(alice))
    name = settings.SESSION_COOKIE_NAME
    page.goto("/robots.txt")
    page.context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": page.url}])
    assert {path: faults(page, path) for path in owners_paths} == dict.fromkeys(owners_paths, [])
