"""Very many completions: copies of the completion of an example, inserted past the triggers. Needs Django to be set up."""

import json
import logging
from datetime import UTC, datetime, timedelta
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from django.apps import apps

ACCOUNTS = 1_000
_EXAMPLE, _FIRST = "example@example.org", "bench@example.org"
_STATEMENTS = Path(__file__).with_suffix(".sql")


def fill(completions: int, days: int) -> None:
    """Migrate, and spread that many completions of 1,000 accounts over the days before now."""
    logging.disable(logging.INFO)  # a line for each request
    _manage("migrate", "--verbosity=0")
    _manage("load_catalog")
    began, step = datetime.now(UTC) - timedelta(days=days), timedelta(days=days) / completions
    values = {"example": _make_example(), "first": _make_account(_FIRST)[0], "accounts": ACCOUNTS}
    values |= {"completions": completions, "began": began, "step": step}
    _execute_unguarded(_STATEMENTS.read_text(), values)
    import_module("billing.migrations.0030_earlier_entries_have_hashes").fill(apps, None)
    execute("VACUUM ANALYZE")


def _make_example() -> str:
    """Make an account with one completion, of which others are copies. Return the account's id."""
    from django.test import Client

    example, secret = _make_account(_EXAMPLE)
    _manage("grant_credit", _EXAMPLE, "100", "--reason", "bench")
    client = Client(headers={"Authorization": f"Bearer {secret}"}, SERVER_NAME="127.0.0.1")
    request = {"model": "demo/echo", "messages": [{"role": "user", "content": "Hello"}]}
    reply = client.post("/v1/chat/completions", request, content_type="application/json")
    assert reply.status_code == 200, reply.content
    return example


def _make_account(email: str) -> tuple[str, str]:
    """Make an account with a key. Return its id, and the secret of the key."""
    account = json.loads(_manage("create_account", email, "--json"))["account"]
    return account, json.loads(_manage("create_key", email, "--json"))["secret"]


def _manage(*arguments: str) -> str:
    from django.core.management import call_command

    printed = StringIO()
    call_command(*arguments, stdout=printed)
    return printed.getvalue()


def _execute_unguarded(statements: str, values: dict[str, Any]) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica; SET work_mem = '1GB'; SET synchronous_commit = off")
        for statement in statements.split(";\n\n"):
            cursor.execute(statement, values)
        cursor.execute("RESET session_replication_role; RESET work_mem; RESET synchronous_commit")


def execute(sql: str) -> list[tuple[Any, ...]]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []
