"""The usage page in a real browser: by each grouping, in light and dark, on a phone, without scripts."""

import random
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from completions.models import LabelHour, UsageHour
from gateway_project.db import pool
from tests import factories
from tests.browser import PHONE, fits, picture, sign_in, violations

USAGE = "/dashboard/usage/"
MODELS = ["openai/gpt-4o-mini", "anthropic/claude-sonnet-4-5", "google/gemini-2.5-flash", "deepseek/deepseek-chat", "demo/echo"]


@pytest.fixture
def used(transactional_db):
    """An account that used five models with two keys for sixty days."""
    account = factories.make_account("Example Ltd", cents=50_000, owner=factories.make_user("ada@example.org"))
    keys = [factories.make_key(account, name)[0] for name in ("Search", "Nightly batch")]
    hour = pool.database_time().replace(minute=0, second=0, microsecond=0)
    chance = random.Random(7)
    hours = [hour - timedelta(hours=ago) for ago in (*range(24), *range(24, 24 * 60, 23))]
    UsageHour.objects.bulk_create(
        _row(account, hour, chance, key_id=key.pk, model_id=m) for hour in hours for key in keys for m in MODELS
    )
    LabelHour.objects.bulk_create(
        _row(account, hour, chance, name=name, value=value)
        for hour in hours
        for name, value in (("", "customer-7"), ("", "customer-8"), ("team", "search"), ("team", "support"))
    )
    return account


def _row(account, hour, chance, **own):
    requests = chance.randrange(20, 90)
    model = UsageHour if "model_id" in own else LabelHour
    return model(
        account=account,
        hour=hour,
        requests=requests,
        errors=requests // 40,
        prompt_tokens=requests * chance.randrange(500, 2_000),
        completion_tokens=requests * chance.randrange(100, 500),
        cost_nanos=requests * chance.randrange(200_000, 2_000_000),
        first_tokens=requests // 2,
        first_token_ms=requests // 2 * chance.randrange(300, 900),
        **own,
    )


def choose(page, choice):
    """Choose a time, a grouping or a measure."""
    link = page.get_by_role("main").get_by_role("link", name=choice, exact=True)
    link.click()
    expect(link).to_have_attribute("aria-current", "true")
    picture(page, f"usage-{choice.lower().replace(' ', '-')}")


def test_a_member_reads_what_was_used(open_page, used):
    page = open_page()
    sign_in(page, "ada@example.org")
    page.get_by_role("link", name="Usage", exact=True).click()
    for choice in ("30 days", "Key", "Tag team", "Requests", "24 hours"):
        choose(page, choice)
        assert fits(page), choice
    assert violations(page) == []
    page.get_by_label("From").fill("2026-01-01")
    page.wait_for_url("**from=2026-01-01**")


def test_many_models_fit_a_phone(open_page, used):
    page = open_page(**PHONE)
    sign_in(page, "ada@example.org", f"{USAGE}?range=30d")
    picture(page, "usage-phone")
    assert (fits(page), violations(page)) == (True, [])


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, PHONE], ids=["desk", "phone"])
def test_every_choice_can_be_read_in_the_dark(open_page, used, options):
    page = open_page(color_scheme="dark", **options)
    sign_in(page, "ada@example.org", USAGE)
    for choice in ("30 days", "Key", "Tag team", "User", "Requests", "24 hours", "Model", "Spending"):
        choose(page, choice)
        assert (fits(page), violations(page)) == (True, []), choice
