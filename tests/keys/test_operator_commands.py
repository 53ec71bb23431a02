"""The commands create_key and revoke_key."""

import json
from datetime import datetime
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from keys import secret
from keys.models import ApiKey
from tests import factories
from tests.conftest import client_for

BALANCE = "/api/billing/balance"


def run(*argv: str) -> str:
    stdout = StringIO()
    call_command(*argv, stdout=stdout)
    return stdout.getvalue()


def answer(*argv: str) -> Any:
    return json.loads(run(*argv, "--json"))


def refusal(*argv: str) -> str:
    with pytest.raises(CommandError) as error:
        run(*argv, "--json")
    assert error.value.returncode == 1
    return str(error.value)


def test_a_key_is_made_and_works_at_once(alice):
    reply = answer("create_key", "Alice@example.org")
    assert set(reply) == {"key", "secret"}
    key = ApiKey.objects.get(pk=reply["key"])
    assert (key.account, key.created_by, key.spending_limit_cents) == (alice, alice.members.get(), None)
    assert secret.key_id(reply["secret"]) == key.pk
    assert client_for(reply["secret"]).get(BALANCE).json()["balanceInCents"] == 1000


def test_a_key_is_made_with_all_options(alice):
    reply = answer(
        "create_key",
        "alice@example.org",
        "--name",
        "nightly",
        "--limit",
        "500",
        "--type",
        "RECURRING",
        "--period",
        "weekly",
        "--rpm",
        "60",
        "--in-flight",
        "7",
        "--tpm",
        "100000",
    )
    key = ApiKey.objects.get(pk=reply["key"])
    assert (key.name, key.spending_limit_cents, key.spending_type, key.spending_period) == (
        "nightly",
        500,
        "RECURRING",
        "WEEKLY",
    )
    assert (key.requests_per_minute, key.tokens_per_minute, key.requests_in_flight_max) == (60, 100_000, 7)


@pytest.mark.parametrize(
    ("limit", "sentence"),
    [
        ([], "without a spending limit"),
        (["--limit", "500", "--type", "FIXED"], "with a FIXED limit of 500 cents"),
        (["--limit", "0", "--type", "RECURRING", "--period", "DAILY"], "with a RECURRING DAILY limit of 0 cents"),
    ],
)
def test_the_text_output_describes_the_key_and_shows_the_secret_once(alice, limit, sentence):
    stdout = run("create_key", "alice@example.org", *limit)
    key = ApiKey.objects.get()
    assert sentence in stdout
    assert secret.key_id(stdout.splitlines()[-1]) == key.pk


@pytest.mark.parametrize(
    ("argv", "argument"),
    [
        (["nobody@example.org"], "EMAIL"),
        (["nobody"], "EMAIL"),
        (["alice@example.org", "--account", "1"], "--account"),
        (["alice@example.org", "--name", ""], "--name"),
        (["alice@example.org", "--name", "n" * 101], "--name"),
        (["alice@example.org", "--limit", "-1", "--type", "FIXED"], "--limit"),
        (["alice@example.org", "--limit", "1.5", "--type", "FIXED"], "--limit"),
        (["alice@example.org", "--limit", "922337203686", "--type", "FIXED"], "--limit"),
        (["alice@example.org", "--limit", "5"], "--limit"),
        (["alice@example.org", "--type", "FIXED"], "--limit, --type"),
        (["alice@example.org", "--type", ""], "--limit, --type, --period"),
        (["alice@example.org", "--limit", "5", "--type", "FIXED", "--period", ""], "--limit, --type, --period"),
        (["alice@example.org", "--limit", "5", "--type", "RECURRING"], "--limit, --type, --period"),
        (["alice@example.org", "--limit", "5", "--type", "FIXED", "--period", "DAILY"], "--limit, --type, --period"),
        (["alice@example.org", "--limit", "5", "--type", "RECURRING", "--period", "YEARLY"], "--limit, --type, --period"),
        (["alice@example.org", "--rpm", "0"], "--rpm"),
        (["alice@example.org", "--rpm", "many"], "--rpm"),
        (["alice@example.org", "--in-flight", "0"], "--in-flight"),
        (["alice@example.org", "--tpm", "2147483648"], "--tpm"),
    ],
)
def test_an_invalid_key_names_the_wrong_argument(alice, argv, argument):
    assert refusal("create_key", *argv).startswith(argument)
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize("by", ["id", "secret"])
def test_a_key_is_revoked_at_once(alice, by):
    key, minted = factories.make_key(alice)
    other, others = factories.make_key(alice)
    client_for(minted).get(BALANCE)
    reply = answer("revoke_key", key.pk if by == "id" else f" {minted}\n")
    key.refresh_from_db()
    assert set(reply) == {"key", "revokedAt"}
    assert reply["key"] == key.pk
    assert abs(datetime.fromisoformat(reply["revokedAt"]) - key.revoked_at).total_seconds() < 0.001
    assert client_for(minted).get(BALANCE).status_code == 401
    assert client_for(others).get(BALANCE).status_code == 200


def test_revoking_twice_reports_the_first_time(alice):
    key, _ = factories.make_key(alice)
    assert answer("revoke_key", key.pk) == answer("revoke_key", key.pk)
    assert f"Key {key.pk} is revoked, since " in run("revoke_key", key.pk)


def test_a_secret_is_never_printed_back(alice):
    key, minted = factories.make_key(alice)
    forged = secret.mint(key.pk)
    for typed in (minted[:-1], forged, secret.mint("0" * 22), "mgw_live_\u00e9", "\udcff"):
        message = refusal("revoke_key", typed)
        assert message == "KEY: there is no key with this id or secret."
    assert minted not in run("revoke_key", minted)


def test_an_invented_secret_with_a_known_id_revokes_nothing(alice):
    key, minted = factories.make_key(alice)
    refusal("revoke_key", secret.mint(key.pk))
    assert ApiKey.objects.get().revoked_at is None
    assert client_for(minted).get(BALANCE).status_code == 200
