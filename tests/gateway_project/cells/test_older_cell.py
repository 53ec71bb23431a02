"""A cell that came back from an older backup is found by the audit, which names it."""

import subprocess
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from billing.ledger import signed_days
from billing.models import Account, AuditedDay
from gateway_project.db import cell, pool
from gateway_project.local import postgresql
from tests import cells, chat, factories
from tests.conftest import client_for
from tests.faults import fault
from tests.live.conftest import database_url


def _run(program: str, *arguments: str, given: bytes = b"") -> bytes:
    done = subprocess.run([postgresql.programs() / program, *arguments], input=given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.system
@pytest.mark.one_cell
@pytest.mark.django_db(transaction=True)
@fault("Database", "One of several cells is restored from an older backup", "The audit finds it, and names the cell")
def test_a_cell_from_an_older_backup_is_found_by_the_audit_and_named(alice: Account, echo_model: Any, capsys: Any) -> None:
    with cells.added() as second:
        with cell.use(second):
            secret = factories.make_key(factories.make_account("Remote", cents=1000))[1]
        backup = _run("pg_dump", "--format=custom", f"--schema={cell.schema(second)}", f"--dbname={database_url()}")
        assert chat.ask(client_for(secret)).status_code == 200
        with cell.use(second):
            factories.make_account("Of today", cents=100)
            assert signed_days.verify(pool.database_time() + timedelta(days=2)) == []
            assert AuditedDay.objects.count() >= 1
        call_command("verify_ledger")

        with connection.cursor() as cursor:
            cursor.execute(f"DROP SCHEMA {cell.schema(second)} CASCADE")
        _run("pg_restore", f"--dbname={database_url()}", given=backup)

        capsys.readouterr()
        with pytest.raises(CommandError, match="2 of"):
            call_command("verify_ledger")
        said = capsys.readouterr().out
        assert "Cell 2: untrue: accounts_are_where_the_directory_says" in said
        assert "Cell 2: untrue: the_last_signed_day_is_there" in said
        assert "Cell 1" not in said
