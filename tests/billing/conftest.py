"""The book's tests run with every trigger enabled."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

TRIGGER = "ALTER TABLE billing_ledgerentry {} TRIGGER entries_are_never_truncated"


@pytest.fixture(scope="session", autouse=True)
def _truncate_is_refused_except_to_the_flush(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    # Transactional tests end with a flush, which truncates. The trigger is away for the flush's own transaction only, so
    # that the audit finds all of them in place.
    flush = connection.ops.sql_flush

    def sql_flush(*args: Any, **options: Any) -> list[str]:
        statements = flush(*args, **options)
        return [TRIGGER.format("DISABLE"), *statements, TRIGGER.format("ENABLE")] if statements else []

    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(TRIGGER.format("ENABLE"))
    connection.ops.sql_flush = sql_flush
    yield
    connection.ops.sql_flush = flush
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(TRIGGER.format("DISABLE"))
