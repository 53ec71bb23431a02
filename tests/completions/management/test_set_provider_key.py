"""``manage.py set_provider_key``: a key from standard input is stored encrypted, recorded, used at once, and shown nowhere."""

import io
import json
import logging
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from completions.catalog import lookup
from completions.models import Provider
from gateway_project.activity.models import Activity
from tests import factories
from tests.upstream import KEY

pytestmark = pytest.mark.django_db

NEW = "sk-rotated-0123456789abcdef"
ACCOUNT = {
    "type": "service_account",
    "project_id": "acme-1",
    "private_key": f"-----BEGIN PRIVATE KEY-----\n{'MIIE' * 500}\n-----END PRIVATE KEY-----\n",
    "client_email": "gateway@acme-1.iam.gserviceaccount.com",
    "token_uri": "https://oauth2.googleapis.com/token",
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Any:
    """Run the command with a text at standard input. Return what it printed, in which no key may be, nor in the log."""
    caplog.set_level(logging.DEBUG)

    def run(typed: str, *arguments: str) -> str:
        printed = io.StringIO()
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        call_command("set_provider_key", *arguments, stdout=printed, stderr=printed)
        assert not typed.strip() or typed.strip() not in printed.getvalue() + caplog.text
        return printed.getvalue()

    return run


def auth(**stated: str) -> None:
    Provider.objects.update(access={"auth": stated})


def sent_keys() -> list[str]:
    return [route.api_key for route in lookup.find_offer("acme/large").routes]


def test_a_key_is_stored_encrypted_recorded_and_used_instead_of_the_variable(large, run):
    assert sent_keys() == [KEY]
    provider = Provider.objects.get()
    Provider.objects.update(refused_key=provider.key_fingerprint, key_refused_at=timezone.now(), key_refusal="401: no")

    said = run(f"{NEW}\n", "scripted")

    assert said == "The key of scripted is stored, encrypted. Within 0 s all processes go by it.\n"
    provider.refresh_from_db()
    assert (provider.read_api_key(), NEW in provider.sealed_api_key) == (NEW, False)
    assert (provider.refused_key, provider.key_refused_at, provider.key_refusal) == ("", None, "")
    assert sent_keys() == [NEW]
    act = Activity.objects.get()
    assert (act.act, act.object_type, act.object_id, act.who) == (
        "CHANGED",
        "completions.provider",
        "scripted",
        "an operator's command",
    )
    assert act.summary.startswith("Stored an API key, as ")
    assert NEW not in f"{act.summary} {act.before} {act.after}"


def test_a_key_is_forgotten_and_the_variable_is_used_again(large, run):
    run(NEW, "scripted")

    assert json.loads(run("", "scripted", "--forget", "--json")) == {"provider": "scripted", "isStored": False}
    assert sent_keys() == [KEY]
    assert Activity.objects.count() == 2

    assert run("", "scripted", "--forget") == "No key was stored. Nothing was changed.\n"
    assert Activity.objects.count() == 2


def test_what_was_done_is_printed_as_json(large, run):
    assert json.loads(run(NEW, "scripted", "--json")) == {"provider": "scripted", "isStored": True}


@pytest.mark.parametrize(
    ("typed", "arguments", "reason"),
    [
        (NEW, ["nobody"], "NAME: there is no provider 'nobody'."),
        (" \n", ["scripted"], "Standard input has no key. Nothing was changed."),
        ("two words", ["scripted"], "An API key has no spaces and only ASCII characters. Nothing was changed."),
        ("sk-ключ", ["scripted"], "An API key has no spaces and only ASCII characters. Nothing was changed."),
        ("k" * 2_001, ["scripted"], "An API key has 1 to 2,000 characters. Nothing was changed."),
    ],
)
def test_what_is_no_key_changes_nothing(large, run, typed, arguments, reason):
    with pytest.raises(CommandError) as refused:
        run(typed, *arguments)

    assert str(refused.value) == reason
    assert Provider.objects.get().sealed_api_key == ""
    assert not Activity.objects.exists()


def test_the_echo_has_no_key(echo_model, run):
    with pytest.raises(CommandError, match="the built-in echo needs no key"):
        run(NEW, "echo")


def test_google_is_given_the_file_of_a_service_account_in_one_line(large, run):
    auth(type="google")
    file = json.dumps(ACCOUNT, indent=2)

    run(f"{file}\n", "scripted")

    stored = Provider.objects.get().read_api_key()
    assert (json.loads(stored), "\n" in stored, len(stored) > 2_000) == (ACCOUNT, False, True)


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        (NEW, "Google's key is the JSON file"),
        ("[]", "Google's key is the JSON file"),
        (json.dumps({**ACCOUNT, "type": "authorized_user"}), "Google's key is the JSON file"),
        (json.dumps({**ACCOUNT, "private_key": ""}), "Google's key is the JSON file"),
        (json.dumps({**ACCOUNT, "token_uri": "http://169.254.169.254/x"}), "token_uri of the service account leads to"),
        (json.dumps({**ACCOUNT, "more": "x" * 10_000}), "has at most 10,000 characters"),
    ],
)
def test_another_key_for_google_is_refused(large, run, settings, typed, reason):
    settings.PRIVATE_UPSTREAMS = []
    auth(type="google")
    with pytest.raises(CommandError, match=reason):
        run(typed, "scripted")
    assert Provider.objects.get().sealed_api_key == ""


def test_the_secret_of_an_application_needs_its_ids(large, run):
    auth(type="azure", client_id="c")
    with pytest.raises(CommandError, match="needs tenant_id and client_id"):
        run(NEW, "scripted")
    auth(type="azure", client_id="c", tenant_id="t")
    run(NEW, "scripted")
    assert Provider.objects.get().read_api_key() == NEW


def test_a_page_that_is_saved_meanwhile_waits(large, run, django_assert_max_num_queries):
    """Else it would write the key back that it has read."""
    factories.make_provider("other", kind="openai", base_url="http://other.invalid/v1")
    with django_assert_max_num_queries(12) as queries:
        run(NEW, "other")
    statements = [each["sql"] for each in queries.captured_queries]
    lock = next(number for number, sql in enumerate(statements) if "pg_advisory_xact_lock" in sql)
    assert "completions.provider other" in statements[lock]
    assert statements[lock + 1].startswith("SELECT")
