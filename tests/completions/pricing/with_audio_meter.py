"""Audio in the prompt, from the catalog to the margin. ``test_new_meter`` runs this in a process that has the meter."""

import re
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client

from billing.ledger import audit
from completions import tasks
from completions.models import Completion, LanguageModel, ProviderDay, ProviderPrice
from completions.pricing.rates import RateSheet
from completions.statistics import margins
from gateway_project.db import pool
from tests.completions.rows import ask, assert_charged
from tests.ledger_audit import assert_ledger_is_consistent
from tests.upstream import KEY_ENV, Upstream, whole

CATALOG = """
[providers.scripted]
kind = "openai"
base_url = "{url}"
api_key_env = "{key}"

[models."acme/sound"]
name = "Sound"
provider = "Acme"
context_window = 128000
max_output_tokens = 4096
price = {{ input = "3.00", output = "15.00", audio_input = "40.00" }}
routes = [ {{ provider = "scripted", upstream_model = "sound" }} ]
"""


@pytest.fixture
def sound(db: None, upstream: Upstream, tmp_path: Any) -> LanguageModel:
    path = tmp_path / "catalog.toml"
    path.write_text(CATALOG.format(url=upstream.url, key=KEY_ENV))
    call_command("load_catalog", path)
    rates = RateSheet.of_values({"input": "1.00", "output": "5.00", "audio_input": "20.00"}).rows
    model = LanguageModel.objects.get(pk="acme/sound")
    ProviderPrice.objects.create(model=model, provider_id="scripted", since="2020-01-01", rates=rates)
    return model


def heard(audio: Any, prompt: int = 100, cached: int = 0) -> Any:
    details = {"audio_tokens": audio, "cached_tokens": cached}
    return whole(usage={"prompt_tokens": prompt, "completion_tokens": 2, "prompt_tokens_details": details})


def test_audio_is_charged_summed_up_audited_and_in_the_margin(
    api: Any, alice: Any, sound: LanguageModel, upstream: Any
) -> None:
    upstream.will(heard(60))
    assert ask(api, model="acme/sound", max_tokens=10).status_code == 200
    nanos = 40 * 3_000 + 60 * 40_000 + 2 * 15_000
    assert_charged(alice, "reported", prompt=100, completion=2, nanos=nanos, model="acme/sound")
    assert Completion.objects.get().other_counts == {"audio_tokens": 60}
    tasks.sum_up_usage()
    assert ProviderDay.objects.get().bands == {"0": {"audio_tokens": 60}}
    today = pool.database_time().date()
    [margin] = margins.read(today.replace(day=1), today.replace(year=today.year + 1))
    assert (margin.charged_nanos, margin.cost_nanos) == (nanos, 40 * 1_000 + 60 * 20_000 + 2 * 5_000)
    assert_ledger_is_consistent()


def test_the_hold_is_for_a_prompt_of_audio(api: Any, alice: Any, sound: LanguageModel, upstream: Any) -> None:
    ask(api, model="acme/sound", max_tokens=10)
    assert alice.holds.get().amount_nanos > 40_000 * 10


@pytest.mark.parametrize(("audio", "counted"), [(0, None), (None, None), (500, {"audio_tokens": 70}), ("many", None)])
def test_audio_is_part_of_the_prompt_beside_what_was_cached(
    api: Any, sound: LanguageModel, upstream: Any, audio: Any, counted: Any
) -> None:
    upstream.will(heard(audio, cached=30))
    assert ask(api, model="acme/sound").status_code == 200
    done = Completion.objects.get()
    assert (done.prompt_tokens, done.cached_tokens, done.other_counts) == (100, 30, counted)
    more = 70 * (40_000 - 3_000) if counted else 0
    assert done.cost_nanos == 100 * 3_000 + 2 * 15_000 + more


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("""UPDATE completions_completion SET other_counts = '{"audio_tokens": 61}'""", True),
        ("UPDATE completions_completion SET other_counts = NULL", True),
        ("""UPDATE completions_providerday SET bands = '{"0": {"audio_tokens": 59}}'""", False),
    ],
)
def test_forged_audio_is_found(api: Any, sound: LanguageModel, upstream: Any, statement: str, found: bool) -> None:
    upstream.will(heard(60))
    ask(api, model="acme/sound")
    tasks.sum_up_usage()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET LOCAL session_replication_role = replica")
        cursor.execute(statement)
        cursor.execute("SET LOCAL session_replication_role = origin")
    names = {"provider_days_sum_to_the_ledger", *(["completions_cost_their_tokens"] if found else [])}
    assert {violation.invariant.name for violation in audit.verify()} == names


def test_audio_is_in_the_list_of_models_and_on_the_page(api: Any, sound: LanguageModel) -> None:
    assert api.get("/v1/models/acme/sound").json()["pricing"]["audio_input"] == "0.00004"
    shown = " ".join(
        re.sub(r"<[^>]+>", " ", Client().get("/models/acme/sound", HTTP_ACCEPT="text/html").content.decode()).split()
    )
    assert re.search(r"Audio input per million tokens Standard \$3\.00 \$15\.00 \$40\.00", shown), shown
