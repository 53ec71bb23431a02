"""Takes the screenshots of the README from a running gateway. In two terminals, with a separate GATEWAY_VAR:

    GATEWAY_VAR=/tmp/pictures make run
    GATEWAY_VAR=/tmp/pictures .venv/bin/python -m docs.images.take

It needs Chromium. The completions are real and charged, through three keys of the demo account; only their dates are moved into
the past, so that the chart shows several days. The ranked models and their ratings are invented; their speeds are measured, on
streams of the built-in echo provider.
"""

import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import requests
from playwright.sync_api import Page, sync_playwright

from keys.spending_limit import SpendingLimit

if TYPE_CHECKING:
    from billing.models import Account

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
DAYS = 27
KEYS: list[dict[str, Any]] = [
    {"name": "production", "limit": SpendingLimit(80, "RECURRING", "MONTHLY")},
    {"name": "laptop", "limit": SpendingLimit(15, "RECURRING", "WEEKLY")},
    {"name": "workshop", "limit": SpendingLimit(12, "FIXED")},
]
WORDS_MAX = 4_000
# Invented models: name, rating, dollars per million tokens in and out, seconds a word.
MODELS: list[tuple[str, float, str, str, float]] = [
    ("Aster 3 Large", 1492, "5.00", "25.00", 0.018),
    ("Borealis 2 Pro", 1481, "2.50", "12.00", 0.012),
    ("Cirrus 4", 1463, "1.10", "4.40", 0.009),
    ("Borealis 2 Flash", 1441, "0.30", "2.50", 0.005),
    ("Aster 3 Small", 1422, "0.80", "4.00", 0.010),
    ("Dune 70B", 1404, "0.60", "0.90", 0.014),
    ("Cirrus 4 Mini", 1387, "0.15", "0.60", 0.006),
    ("Dune 8B", 1311, "0.05", "0.10", 0.004),
]
# What one of them charges beside that: for a cache, for long prompts, and where the reply may wait.
RATES = {
    **{"cached_input": "0.25", "flex_input": "1.25", "flex_output": "6.00"},
    **{"input_above_128000": "5.00", "output_above_128000": "18.00", "cached_input_above_128000": "0.50"},
}
PUBLIC_PAGES = {"landing": "/", "models": "/models", "reference": "/docs/reference"}
STREAMS, STREAM_WORDS, CROWD = 24, 40, 240


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # Playwright runs an event loop in this thread
    from gateway_project.local import development

    development.prepare(os.environ)
    import django

    django.setup()
    facts = json.loads((development.var(os.environ) / "quickstart.json").read_text())
    account = _account()
    _use(account, facts)
    _rank(facts)
    base_url = facts["base_url"]
    _draw()
    for name, path in PUBLIC_PAGES.items():
        with _browser(width=1280) as page:
            page.goto(f"{base_url}{path}")
            page.wait_for_load_state("networkidle")
            page.screenshot(path=HERE / f"{name}.png")
    with _browser(width=1280, height=1440) as page:
        page.goto(f"{base_url}/rankings?search=example&limit=5")
        page.wait_for_load_state("networkidle")
        page.screenshot(path=HERE / "rankings.png")
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
    from gateway_project.db import pool
    from keys import lifecycle
    from keys.models import ApiKey

    if ApiKey.objects.filter(account=account, name=KEYS[0]["name"]).exists():
        return  # an earlier run used it
    secrets = [lifecycle.issue_key(account, **key)[1] for key in KEYS]
    today = pool.database_time().date()
    chance = Random(7)  # noqa: S311  the same screenshot every time
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
    """Move today's completions to ``day``, past the trigger, so that the audit still finds the ledger consistent."""
    from django.db import connection, transaction

    from completions.models import Completion
    from keys.models import SpendingDay

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        Completion.objects.filter(spending_day=today).update(spending_day=day)
        SpendingDay.objects.filter(day=today).update(day=day)


# --- Rankings -----------------------------------------------------------------------------------------------------


def _rank(facts: dict[str, Any]) -> None:
    """List the invented models, stream from each, and publish the resulting ranking."""
    from completions.models import LanguageModel
    from rankings.models import Source
    from rankings.publishing import publication

    if not LanguageModel.objects.filter(maker="Example Lab").exists():
        for name, _, input, output, _ in MODELS:
            _make(name, input, output)
        _say()
        with ThreadPoolExecutor(16) as executor:
            list(executor.map(lambda model: _stream(facts, model), MODELS * STREAMS))
    publication.publish(Source.LMSYS_ARENA)


def _id(name: str) -> str:
    return f"example/{name.lower().replace(' ', '-')}"


def _make(name: str, input: str, output: str) -> None:
    from completions.models import LanguageModel, Price, Route
    from completions.pricing.rates import RateSheet

    model = LanguageModel.objects.create(
        id=_id(name), name=name, maker="Example Lab", context_window=200_000, max_output_tokens=8_192, commercial_use=True
    )
    rates = {"input": input, "output": output, **(RATES if name == "Borealis 2 Pro" else {})}
    Price.objects.create(model=model, rates=RateSheet.of_values(rates).rows)
    Route.objects.create(model=model, provider_id="echo", upstream_model="echo")


def _say() -> None:
    """Store an invented LMArena leaderboard in which the invented models stand among others."""
    from completions.models import Category
    from gateway_project.db import pool
    from rankings.models import Alias, Snapshot, Source, Standing

    arena = Source.LMSYS_ARENA
    snapshot = Snapshot.objects.create(source=arena, as_of=pool.database_time() - timedelta(hours=40), fingerprint="0" * 64)
    ratings = {f"another-{number}": 1_000 + 2 * number for number in range(CROWD)} | {_id(name): at for name, at, *_ in MODELS}
    order = sorted(ratings, key=lambda name: -ratings[name])
    for name, *_ in MODELS:
        Alias.objects.create(source=arena, key_kind="model_name", external_key=_id(name), model_id=_id(name), method="staff")
    Standing.objects.bulk_create(
        Standing(
            snapshot=snapshot,
            board=Category.GENERAL,
            external_key=name,
            key_kind="model_name",
            name=name,
            rank=rank,
            value=ratings[name],
            facts={"lower": ratings[name] - 5, "upper": ratings[name] + 5},
        )
        for rank, name in enumerate(order, start=1)
    )


def _stream(facts: dict[str, Any], model: tuple[str, float, str, str, float]) -> None:
    name, _, _, _, seconds = model
    body = {
        "model": _id(name),
        "messages": [{"role": "user", "content": "Tell me everything."}],
        "max_tokens": STREAM_WORDS,
        "stream": True,
        "echo": {"reply": "word " * STREAM_WORDS, "delay_seconds": seconds},
    }
    headers = {"Authorization": f"Bearer {facts['api_key']}"}
    requests.post(f"{facts['api_url']}/v1/chat/completions", json=body, headers=headers, timeout=60).raise_for_status()


# --- The mark, as pictures for links to the pages and for telephones ------------------------------------------------


def _draw() -> None:
    static = ROOT / "templates" / "static" / "dashboard"
    with _browser(width=1200, height=630) as page:
        page.goto((HERE / "card.svg").as_uri())
        page.screenshot(path=static / "card.png")
    with _browser(width=180, height=180) as page:
        page.set_content(f"<style>body {{ margin: 0 }} svg {{ display: block }}</style>{(static / 'icon.svg').read_text()}")
        page.screenshot(path=static / "icon.png", omit_background=True)


# --- Pictures -----------------------------------------------------------------------------------------------------


@contextmanager
def _browser(*, width: int = 1120, height: int = 900) -> Iterator[Page]:
    with sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("chromium-headless-shell")
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        try:
            yield browser.new_page(viewport={"width": width, "height": height})
        finally:
            browser.close()


def _sign_in(page: Page, url: str, person: dict[str, str]) -> None:
    """Open ``url``, sign in, and wait for the page."""
    page.goto(url)
    page.fill("input[name=login]", person["email"])
    page.fill("input[name=password]", person["password"])
    page.press("input[name=password]", "Enter")
    page.wait_for_url(url)
    page.wait_for_load_state("networkidle")


if __name__ == "__main__":
    main()
