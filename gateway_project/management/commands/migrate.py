"""Migrate the database of a running gateway, cell by cell; then let no role but their owner change append-only rows.

An empty database gets all tables at once, from a snapshot of the schema.

Who waits for a lock on a table makes every later statement on it wait, too. So a migration waits for two seconds, lets the
requests pass that waited behind it, and tries again.
"""

import time
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import migrate
from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations import Migration

from gateway_project.cells import structure
from gateway_project.db import cell, direct_connections, pool, schema_snapshot

LOCK_SECONDS, PAUSE_SECONDS, TRIES = 2, 3, 60
# These wait as long as need be: their locks stop no request, and an index that is given up stays behind as an invalid one.
_PATIENT = (" CONCURRENTLY ", " VALIDATE CONSTRAINT ")

# Their triggers refuse every change already. So there must be two mistakes before a row is changed, instead of one.
APPEND_ONLY = (
    *("billing_ledgerentry", "billing_manualentry", "billing_membershipchange", "billing_paymentevent"),
    *("billing_ledgerroot", "billing_ledgerleaf", "billing_ledgerhead", "activity_activity"),
)
_GRANTEES = """
SELECT DISTINCT tables.relname, grantee::regrole::text
FROM pg_class AS tables, aclexplode(tables.relacl)
WHERE tables.oid = ANY (SELECT to_regclass(name) FROM unnest(%s::text[]) AS name)
    AND grantee NOT IN (0, tables.relowner) AND privilege_type IN ('UPDATE', 'DELETE', 'TRUNCATE')
"""


# With any of these options not all migrations run.
_PARTIAL_OPTIONS = ("app_label", "fake", "fake_initial", "plan", "check_unapplied", "prune", "run_syncdb")


class Command(migrate.Command):
    _running: Migration | None = None

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--from-migrations", action="store_true", help="Run each migration, even in an empty database.")

    def execute(self, *args: Any, **options: Any) -> str | None:
        pool.stop_pooling()  # a pool would say that it got no connection, and not why
        try:
            return super().execute(*args, **options)
        except pool.UNAVAILABLE as error:
            raise CommandError(f"The database was not migrated: {error}") from None

    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        with connection.execute_wrapper(self._execute_patiently):
            self._set_lock_seconds(connection, LOCK_SECONDS)
            try:
                may_load = not options.pop("from_migrations") and not any(map(options.get, _PARTIAL_OPTIONS))
                has_loaded = may_load and self._repeat(lambda: schema_snapshot.load(connection), lambda: True)
                if has_loaded and options["verbosity"]:
                    self.stdout.write("The database is empty. Created all tables from schema.sql.")
                self._migrate_cell(cell.FIRST, args, options)
                for number in structure.added_cells(connection.alias):
                    self.stdout.write(f"Cell {number}:")
                    self._migrate_cell(number, args, options)
            finally:
                if connection.connection is not None and connection.is_usable():
                    with connection.cursor() as cursor:
                        cursor.execute(direct_connections.session_sql())

    def _migrate_cell(self, number: int, args: Any, options: dict[str, Any]) -> None:
        with cell.use(number):
            self._repeat(lambda: super(Command, self).handle(*args, **options), self._may_run_again)
            structure.finish(number)
            with connections[options["database"]].cursor() as cursor:
                cursor.execute(_GRANTEES, [list(APPEND_ONLY)])
                for table, role in cursor.fetchall():  # both are quoted where need be
                    cursor.execute(f"REVOKE UPDATE, DELETE, TRUNCATE ON {table} FROM {role}")

    def migration_progress_callback(self, action: str, migration: Migration | None = None, fake: bool = False) -> None:
        if action.startswith(("apply", "unapply")):
            self._running = migration if action.endswith("_start") else None
        super().migration_progress_callback(action, migration, fake)

    def _may_run_again(self) -> bool:
        """Return whether a migration failed that left nothing behind. Of others each statement is repeated by itself."""
        return self._running is not None and self._running.atomic

    def _execute_patiently(self, execute: Callable[..., Any], sql: Any, parameters: Any, many: bool, context: Any) -> Any:
        """Repeat a statement until it gets its lock, unless it is in a transaction: then the whole migration is repeated."""
        connection = context["connection"]
        if connection.in_atomic_block:
            return execute(sql, parameters, many, context)
        if not any(words in str(sql) for words in _PATIENT):
            return self._repeat(lambda: execute(sql, parameters, many, context), lambda: True)
        self._set_lock_seconds(connection, 0)
        try:
            return execute(sql, parameters, many, context)
        finally:
            self._set_lock_seconds(connection, LOCK_SECONDS)

    def _repeat(self, run: Callable[[], Any], may_run_again: Callable[[], bool]) -> Any:
        for left in reversed(range(TRIES)):
            try:
                return run()
            except OperationalError as error:
                if not left or not pool.is_lock_timeout(error) or not may_run_again():
                    raise
            self.stdout.write(f"\n  A table is locked by another session. Waiting {PAUSE_SECONDS} seconds ...")
            time.sleep(PAUSE_SECONDS)
        raise AssertionError

    def _set_lock_seconds(self, connection: BaseDatabaseWrapper, seconds: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = '{seconds}s'")
