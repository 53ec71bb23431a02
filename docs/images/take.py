"""Takes the pictures of the README, of a gateway that runs: with a GATEWAY_VAR for this alone, in two terminals,

    GATEWAY_VAR=/tmp/pictures make run
    GATEWAY_VAR=/tmp/pictures .venv/bin/python docs/images/take.py

It needs Chromium. What it shows was really completed and charged, through three keys of the demo account; only the days on
which it was are moved into the past, so that the chart has something to show.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import requests
from playwright.sync_api import Page, sync_playwright

if TYPE_CHECKING:
    from billing.models import Account

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
DAYS = 27
KEYS: list[dict[str, Any]] = [
    {"name": "production", "limit_cents": 80, "type": "RECURRING", "period": "MONTHLY"},
    {"name": "laptop", "limit_cents": 15, "type": "RECURRING", "period": "WEEKLY"},
    {"name": "workshop", "limit_cents": 12, "type": "FIXED"},
]
WORDS_MAX = 4_000


def main() -> None:
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # Playwright runs an event loop in this thread
    from gateway_project import development

    development.prepare(os.environ)
    import django

    django.setup()
    facts = json.loads((development.var(os.environ) / "quickstart.json").read_text())
    account = _account()
    _use(account, facts)
    base_url = facts["base_url"]
    with _browser() as page:
        _sign_in(page, f"{base_url}/dashboard/", facts["owner"])
        page.screenshot(path=HERE / "dashboard.png")
    with _browser() as page:
        _sign_in(page, f"{base_url}/admin/billing/account/{account.pk}/change/", facts["admin"])
        page.screenshot(path=HERE / "admin.png")


# --- Usage --------------------------------------------------------------------------------------------------------


def _account() -> "Account":
    from billing.models import Account

    return Account.objects.get(name="Demo")


def _use(account: "Account", facts: dict[str, Any]) -> None:
    from gateway_project import database
    from keys import keyring
    from keys.models import ApiKey

    if ApiKey.objects.filter(account=account, name=KEYS[0]["name"]).exists():
        return  # it was used by an earlier run
    secrets = [keyring.issue(account, **key)[1] for key in KEYS]
    today = database.now().date()
    chance = Random(7)  # noqa: S311  the same picture every time
    for ago in range(DAYS, -1, -1):
        day = today - timedelta(days=ago)
        busy = chance.uniform(0.1, 0.35) if day.weekday() >= 5 else chance.uniform(0.5, 1)
        for secret, share in zip(secrets, (8, 3, 1), strict=True):
            for _ in range(round(busy * share)):
                _ask(facts, secret, words=chance.randint(WORDS_MAX // 4, WORDS_MAX))
        _move(today, day)


def _ask(facts: dict[str, Any], secret: str, *, words: int) -> None:
    body = {
        "model": facts["model"],
        "messages": [{"role": "user", "content": "Tell me everything."}],
        "max_tokens": WORDS_MAX,
        "echo": {"reply": "word " * words},
    }
    headers = {"Authorization": f"Bearer {secret}"}
    requests.post(f"{facts['api_url']}/v1/chat/completions", json=body, headers=headers, timeout=60).raise_for_status()


def _move(today: date, day: date) -> None:
    """What was completed today was completed on ``day``. The audit goes on saying that the book is true."""
    from completions.models import Completion
    from keys.models import SpendingDay

    Completion.objects.filter(spending_day=today).update(spending_day=day)
    SpendingDay.objects.filter(day=today).update(day=day)


# --- Pictures -----------------------------------------------------------------------------------------------------


@contextmanager
def _browser() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        try:
            yield browser.new_page(viewport={"width": 1120, "height": 900})
        finally:
            browser.close()


def _sign_in(page: Page, url: str, person: dict[str, str]) -> None:
    """Open ``url``, which asks who it is for, and wait for what it shows then."""
    page.goto(url)
    page.fill("input[name=username]", person["email"])
    page.fill("input[name=password]", person["password"])
    page.press("input[name=password]", "Enter")
    page.wait_for_url(url)
    page.wait_for_load_state("networkidle")


if __name__ == "__main__":
    main()
