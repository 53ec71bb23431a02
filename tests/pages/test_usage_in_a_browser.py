"""The usage page in a real browser: by each grouping, in light and dark, on a phone, without scripts."""

import random
from datetime import timedelta

import pytest

from completions.models import LabelHour, UsageHour
from gateway_project.db import pool
from tests import factories
from tests.browser import PHONE, chromium, fits, open_page, picture, sign_in, violations  # noqa: F401  fixtures

USAGE = "/dashboard/usage/"
MODELS = ["openai/gpt-4o-mini", "anthropic/claude-sonnet-4-5", "google/gemini-2.5-flash", "deepseek/deepseek-chat", "demo/echo"]


@pytest.fixture
def used(transactional_db):
    """An account that used five models with two keys for sixty days."""
    account = factories.make_account("Example Ltd", cents=50_000, owner=factories.make_user("ada@example.org"))
    keys = [factories.make_key(account, name)[0] for name in ("Search", "Nightly batch")]
    hour = pool.database_time().replace(minute=0, second=0, microsecond=0)
    chance = random.Random(7)
    hours = [hour - timedelta(hours=ago) for ago in range(24 * 60) if (hour - timedelta(hours=ago)).hour in range(7, 20)]
    UsageHour.objects.bulk_create(
        _row(account, hour, chance, key_id=key.pk, model_id=m) for hour in hours for key in keys for m in MODELS
    )
    LabelHour.objects.bulk_create(
        _row(account, hour, chance, name=name, value=value)
        for hour in hours
        for name, value in (("", "customer-7"), ("", None), ("team", "search"), ("team", "support"))
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


def test_a_member_reads_what_was_used(open_page, used):  # noqa: F811
    page = open_page()
    sign_in(page, "ada@example.org")
    page.get_by_role("link", name="Usage", exact=True).click()
    for choice in ("30 days", "Key", "Tag team", "User", "Requests", "24 hours", "Model", "Spending"):
        page.get_by_label("Time").or_(page.get_by_label("Group by")).or_(page.get_by_label("What the plot shows")).get_by_role(
            "link", name=choice, exact=True
        ).click()
        assert (fits(page), violations(page)) == (True, [])
        picture(page, f"usage-{choice.lower().replace(' ', '-')}")
    page.get_by_label("From").fill("2026-01-01")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**from=2026-01-01**")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dark", {"color_scheme": "dark"}),
        ("phone", PHONE),
        ("phone-dark", {**PHONE, "color_scheme": "dark", "java_script_enabled": False}),
    ],
)
def test_the_page_fits_and_can_be_read(open_page, used, name, options):  # noqa: F811
    page = open_page(**options)
    sign_in(page, "ada@example.org")
    page.goto(f"{USAGE}?range=30d")
    assert fits(page)
    picture(page, f"usage-{name}")
    if options.get("java_script_enabled", True):
        assert violations(page) == []
