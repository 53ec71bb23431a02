"""The system checks of completions, those of the catalog as ``check --database default`` runs them."""

import io
import sys
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from completions import checks
from completions.catalog import file as catalog_file
from completions.checks import check_idempotent_replies, check_requests_in_flight, check_stored_responses, check_tracing
from completions.models import LanguageModel, Price, Provider, Route
from gateway_project import secretbox
from tests import factories

pytestmark = pytest.mark.django_db


def found() -> list[tuple[str, str]]:
    """The id and the first word of every message of the checks."""
    messages = run_checks(tags=["database"], databases=["default"])
    return [(message.id, message.msg) for message in messages if message.id and message.id.startswith("gateway.")]


def test_a_complete_catalog_gives_no_message(echo_model):
    assert found() == []


def test_an_enabled_model_without_a_price_is_w002(echo_model):
    Price.objects.all().delete()

    assert found() == [("gateway.W002", "demo/echo is enabled but has no price in force, so it is not served.")]


def test_a_price_that_starts_tomorrow_is_not_in_force(echo_model):
    factories.change_prices(Price.objects, effective_from=timezone.now() + timedelta(days=1))

    assert [check for check, _ in found()] == ["gateway.W002"]


@pytest.mark.parametrize("lose", [lambda: Route.objects.all().delete(), lambda: Route.objects.update(is_enabled=False)])
def test_an_enabled_model_without_an_enabled_route_is_w003(echo_model, lose):
    lose()

    assert found() == [("gateway.W003", "demo/echo is enabled but has no enabled route, so it is not served.")]


def test_a_disabled_model_may_lack_both(echo_model):
    Price.objects.all().delete()
    Route.objects.all().delete()
    LanguageModel.objects.update(is_enabled=False)

    assert found() == []


def test_a_provider_at_a_private_address_is_w006_unless_permitted(db, settings):
    factories.make_provider("shed", kind="openai", base_url="http://10.1.2.3:8001/v1")
    assert found() == []

    settings.PRIVATE_UPSTREAMS = []

    expected = "The base_url of provider shed leads to a private address, which GATEWAY_PRIVATE_UPSTREAMS does not permit."
    assert found() == [("gateway.W006", expected)]
    Provider.objects.update(is_enabled=False)
    assert found() == []


def test_a_readable_sealed_key_gives_no_message(db):
    factories.make_provider("shed", sealed_api_key=secretbox.encrypt("sk-1", purpose="provider:shed"))

    assert found() == []


def test_a_sealed_key_of_a_lost_encryption_key_is_e008(db, settings):
    factories.make_provider("shed", sealed_api_key=secretbox.encrypt("sk-1", purpose="provider:shed"))
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]

    assert found() == [("gateway.E008", "The key of provider shed cannot be read with GATEWAY_ENCRYPTION_KEYS.")]


def test_a_sealed_key_copied_from_another_provider_is_e008(db):
    factories.make_provider("shed", sealed_api_key=secretbox.encrypt("sk-1", purpose="provider:barn"))

    assert [check for check, _ in found()] == ["gateway.E008"]


def test_without_usable_encryption_keys_the_check_still_answers(db, settings):
    factories.make_provider("shed", sealed_api_key=secretbox.encrypt("sk-1", purpose="provider:shed"))
    settings.ENCRYPTION_KEYS = []

    assert [check for check, _ in found()] == ["gateway.E008"]


@pytest.mark.parametrize(
    ("kind", "module", "said"),
    [
        ("google", "google.auth", "auth of the type google needs google-auth: pip install 'model-gateway[google]'"),
        ("aws", "botocore", "auth of the type aws needs botocore: pip install 'model-gateway[aws]'"),
        ("azure", "azure.identity", "auth of the type azure needs azure-identity: pip install 'model-gateway[azure]'"),
    ],
)
def test_an_enabled_provider_whose_library_is_not_installed_is_e024(db, monkeypatch, tmp_path, kind, module, said):
    shed = factories.make_provider("shed", kind="openai", base_url="http://shed.invalid/v1", access={"auth": {"type": kind}})
    assert found() == []
    monkeypatch.setitem(sys.modules, module, None)
    assert found() == [("gateway.E024", f"Provider shed: {said}.")]
    file = tmp_path / "shed.toml"
    more = ', region = "r", service = "s"' if kind == "aws" else ""
    cloud = {"google": "vertex", "aws": "bedrock", "azure": "azure"}[kind]
    address = f'base_url = "http://shed.invalid/v1"\nplatform = "{cloud}"'
    table = f'kind = "openai"\n{address}\nauth = {{ type = "{kind}"{more} }}'
    file.write_text(f"[providers.shed]\n{table}")
    assert catalog_file.apply(catalog_file.read([file])).warnings == [f"provider shed: {said}"]
    shed.refresh_from_db()
    shed.seal_api_key("k")
    shed.save()
    assert bool(found()) is (kind != "aws")  # a key of Bedrock is shown as it is
    Provider.objects.update(is_enabled=False)
    assert found() == []


def test_an_unmigrated_database_gives_no_message(db):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE completions_languagemodel RENAME TO not_yet")
    Provider.objects.create(slug="shed", kind="openai", sealed_api_key="unreadable")

    assert found() == []
    assert Provider.objects.count() == 1  # the transaction around is still usable


def test_a_check_without_database_makes_no_query(django_assert_num_queries):
    with django_assert_num_queries(0):
        call_command("check", stdout=io.StringIO(), stderr=io.StringIO())


def test_no_room_for_the_largest_reply_is_w007(settings):
    settings.IDEMPOTENT_REPLY_BYTES_MAX = 1_000
    settings.IDEMPOTENT_ACCOUNT_BYTES_MAX = 1_700
    assert check_idempotent_replies() == []
    settings.IDEMPOTENT_ACCOUNT_BYTES_MAX -= 1
    [message] = check_idempotent_replies()
    assert (message.id, message.hint) == (
        "gateway.W007",
        "Set it to 1700 or more, or lower GATEWAY_IDEMPOTENT_REPLY_BYTES_MAX.",
    )


def test_traces_without_what_sends_them_are_e017(settings, monkeypatch):
    assert check_tracing() == []
    settings.TRACING_ENDPOINT = "http://127.0.0.1:4318"
    assert check_tracing() == []
    monkeypatch.setattr(checks, "TRACES_ARE_SENT_BY", "opentelemetry.no_such_package.http")
    assert [message.id for message in check_tracing()] == ["gateway.E017"]


def test_a_room_for_responses_that_is_too_small_for_the_largest_is_w012(settings):
    settings.STORED_RESPONSE_BYTES_MAX, settings.STORED_RESPONSE_ACCOUNT_BYTES_MAX = 1_000, 2_100
    assert check_stored_responses() == []
    settings.STORED_RESPONSE_ACCOUNT_BYTES_MAX -= 1
    [message] = check_stored_responses()
    assert (message.id, message.hint) == (
        "gateway.W012",
        "Set it to 2100 or more, or lower GATEWAY_STORED_RESPONSE_BYTES_MAX.",
    )
    settings.STORED_RESPONSE_DAYS = 0
    assert check_stored_responses() == []


def test_a_key_that_can_take_every_slot_of_a_process_is_w008(settings):
    settings.WORKER_CONNECTIONS, settings.KEY_REQUESTS_IN_FLIGHT = 20, 8
    assert check_requests_in_flight() == []
    settings.KEY_REQUESTS_IN_FLIGHT = 9  # and as many again with an Idempotency-Key
    assert [message.id for message in check_requests_in_flight()] == ["gateway.W008"]


@pytest.mark.parametrize(
    ("days", "directory", "response_days", "expected"),
    [
        (None, "", 30, []),
        (90, "/archive", 30, []),
        (40, "/archive", 40, ["gateway.E018"]),
        (40, "/archive", 0, []),  # none is stored
        (90, "archive", 30, ["gateway.E019"]),
        (90, "", 30, ["gateway.W015"]),
        (None, "/archive", 30, ["gateway.W016"]),
    ],
)
def test_retention_that_contradicts_itself_is_reported(settings, days, directory, response_days, expected):
    settings.RETENTION_DETAIL_DAYS, settings.ARCHIVE_DIR = days, directory
    settings.STORED_RESPONSE_DAYS = response_days
    assert [message.id for message in checks.check_retention()] == expected
