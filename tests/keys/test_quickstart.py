"""The demo account is created once, kept, and repaired when a part is missing."""

import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.hashers import check_password
from django.core.management import call_command

from billing.models import Account, LedgerEntry, Membership, User
from keys import lifecycle
from keys.models import ApiKey

HERE = {"base_url": "http://127.0.0.1:8000", "api_url": "http://127.0.0.1:8000"}


@pytest.fixture
def path(db: None, tmp_path: Path, settings: Any) -> Path:
    settings.GATEWAY_VAR = tmp_path
    settings.PASSWORD_HASHERS = ["gateway_project.passwords.OffloadedPBKDF2PasswordHasher"]
    return tmp_path / "quickstart.json"


def prepare(path: Path, **addresses: str) -> dict[str, Any]:
    """Run the command, and return the facts that it wrote."""
    output = io.StringIO()
    call_command("prepare_quickstart", json=True, stdout=output, **addresses)
    assert json.loads(path.read_text()) == json.loads(output.getvalue())
    return json.loads(path.read_text())


def count() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (User, Account, Membership, LedgerEntry, ApiKey))


def test_the_demo_is_made(path):
    facts = prepare(path, **HERE)
    assert json.loads(path.read_text()) == facts
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    admin, owner = User.objects.order_by("email")
    assert (admin.is_staff, admin.is_superuser, owner.is_staff, owner.is_superuser) == (True, True, False, False)
    assert check_password(facts["admin"]["password"], admin.password)
    assert check_password(facts["owner"]["password"], owner.password)
    entry = LedgerEntry.objects.get()
    assert (entry.type, entry.amount_nanos, list(entry.account.members.all())) == ("SUPPORT_CREDIT", 10**10, [owner])
    assert ApiKey.objects.get().account == entry.account
    assert list(path.parent.iterdir()) == [path]


def test_a_second_run_changes_nothing(path):
    facts, rows = prepare(path, **HERE), count()
    assert (prepare(path, **HERE), count()) == (facts, rows)


def test_a_new_port_changes_only_the_addresses(path):
    facts = prepare(path, **HERE)
    there = {"base_url": "http://127.0.0.1:9000", "api_url": "http://127.0.0.1:9000"}
    assert prepare(path, **there) == {**facts, **there}


def test_the_text_output_names_the_file_and_no_secret(path):
    output = io.StringIO()
    call_command("prepare_quickstart", stdout=output, **HERE)
    assert output.getvalue() == f"The demo is ready. How to use it is in {path}.\n"


@pytest.mark.parametrize("content", [None, "", "[]", "{", '{"api_key": 3, "owner": "x"}'])
def test_a_lost_file_gives_a_new_key_and_passwords_but_no_new_credit(path, content):
    facts, before = prepare(path, **HERE), count()
    path.unlink()
    if content is not None:
        path.write_text(content)
    again = prepare(path, **HERE)
    assert again["api_key"] != facts["api_key"]
    for name in ("admin", "owner"):
        assert again[name]["password"] != facts[name]["password"]
        assert check_password(again[name]["password"], User.objects.get(email=again[name]["email"]).password)
    assert count() == (*before[:-1], before[-1] + 1)


def test_a_key_that_no_longer_works_is_replaced(path):
    facts = prepare(path, **HERE)
    lifecycle.revoke_key(ApiKey.objects.get())
    again = prepare(path, **HERE)
    assert again == {**facts, "api_key": again["api_key"]}
    assert again["api_key"] != facts["api_key"]


def test_a_fresh_database_gets_the_users_of_the_file_and_a_new_key(path):
    facts = {"api_key": "mgw_live_gone", "owner": {"password": "kept-owner"}, "admin": {"password": "kept-admin"}}
    path.write_text(json.dumps(facts))
    again = prepare(path, **HERE)
    assert again["api_key"] != facts["api_key"]
    assert User.objects.get(email="owner@example.com").check_password("kept-owner")
    assert User.objects.get(email="admin@example.com").check_password("kept-admin")
