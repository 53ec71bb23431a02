"""``migrate`` on a database that is in use: it waits for locks in turns, and repeats only what left nothing behind."""

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from gateway_project.db import direct_connections
from gateway_project.management.commands import migrate
from gateway_project.monitoring import migrations
from tests import waiting
from tests.faults import fault

pytestmark = pytest.mark.django_db(transaction=True)

MIGRATION = """
from django.db import migrations

class Migration(migrations.Migration):
    atomic = {atomic}
    dependencies = [("monitoring", "{last}")]
    operations = [migrations.RunSQL(up, down) for up, down in {statements}]
"""
TWO_STEPS = [
    ("CREATE TABLE first_step ()", "DROP TABLE first_step"),
    ("ALTER TABLE monitoring_process ADD COLUMN probe integer", "ALTER TABLE monitoring_process DROP COLUMN probe"),
]
INDEX = [("CREATE INDEX CONCURRENTLY probe ON monitoring_process (pid)", "DROP INDEX CONCURRENTLY probe")]


@pytest.fixture
def migration(tmp_path, settings, monkeypatch):
    """Return a function that writes a last migration of the app ``monitoring``. It is taken back after the test."""
    package = tmp_path / "probe_migrations"
    package.mkdir()
    (package / "__init__.py").touch()
    for initial in Path(migrations.__path__[0]).glob("0*.py"):
        shutil.copy(initial, package)
    last = max(path.stem for path in package.glob("0*.py"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(migrate, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(migrate, "LOCK_SECONDS", 0.05)
    settings.MIGRATION_MODULES = {"monitoring": "probe_migrations"}

    def write(statements: list[tuple[str, str]], *, atomic: bool) -> None:
        (package / "9999_probe.py").write_text(MIGRATION.format(last=last, atomic=atomic, statements=statements))

    yield write
    call_command("migrate", "monitoring", last, verbosity=0)
    for name in [name for name in sys.modules if name.startswith("probe_migrations")]:
        del sys.modules[name]


class Report(StringIO):
    """What the command prints. When it says that it waits, the lock is given back."""

    def __init__(self, holder):
        super().__init__()
        self.holder, self.lock_seconds = holder, []

    def write(self, text: str) -> int:
        if "is locked" in text:
            self.holder.execute("ROLLBACK")
        return super().write(text)


@pytest.fixture
def report():
    with direct_connections.connect() as holder:
        yield Report(holder)


@fault(
    "Deployment",
    "A session locks a table that a migration changes",
    "`migrate` waits two seconds at a time, lets requests pass between, and continues when it is free",
)
@pytest.mark.parametrize("atomic", [True, False])
def test_a_migration_waits_in_turns_for_a_locked_table(migration, report, atomic):
    migration(TWO_STEPS, atomic=atomic)
    report.holder.execute("BEGIN; LOCK TABLE monitoring_process IN ACCESS SHARE MODE")
    call_command("migrate", "monitoring", stdout=report)
    assert report.getvalue().count("A table is locked") == 1
    with connection.cursor() as cursor:
        cursor.execute("SELECT probe FROM monitoring_process, first_step")
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() != ("50ms",)


def test_a_table_that_stays_locked_is_said_and_nothing_is_left(migration, report, monkeypatch):
    monkeypatch.setattr(migrate, "TRIES", 1)
    migration(TWO_STEPS, atomic=True)
    report.holder.execute("BEGIN; LOCK TABLE monitoring_process IN ACCESS SHARE MODE")
    with pytest.raises(CommandError, match="lock timeout"):
        call_command("migrate", "monitoring", stdout=report)
    report.holder.execute("ROLLBACK")
    assert "first_step" not in connection.introspection.table_names()


def test_an_index_waits_for_as_long_as_another_session_writes(migration, report):
    migration(INDEX, atomic=False)
    report.holder.execute("BEGIN; LOCK TABLE monitoring_process IN ROW EXCLUSIVE MODE")

    def give_back() -> None:
        with direct_connections.connect() as observer:
            late = "SELECT FROM pg_locks WHERE NOT granted AND waitstart < clock_timestamp() - interval '200 ms'"
            waiting.until(lambda: observer.execute(late).fetchall())
        report.holder.execute("ROLLBACK")

    with ThreadPoolExecutor() as threads:
        given_back = threads.submit(give_back)
        call_command("migrate", "monitoring", stdout=report)
        given_back.result()
    assert "is locked" not in report.getvalue()
    with connection.cursor() as cursor:
        cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = 'probe'::regclass")
        assert cursor.fetchall() == [(True,)]
