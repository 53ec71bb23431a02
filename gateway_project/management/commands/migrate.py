"""Migrate the database; then let no role but their owner change the rows of append-only tables."""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connections

from gateway_project.db import pool

# Their triggers refuse every change already. So there must be two mistakes before a row is changed, instead of one.
APPEND_ONLY = (
    "billing_ledgerentry",
    "billing_manualentry",
    "billing_membershipchange",
    "billing_paymentevent",
    "activity_activity",
)
_GRANTEES = """
SELECT DISTINCT tables.relname, grantee::regrole::text
FROM pg_class AS tables, aclexplode(tables.relacl)
WHERE tables.oid = ANY (SELECT to_regclass(name) FROM unnest(%s::text[]) AS name)
    AND grantee NOT IN (0, tables.relowner) AND privilege_type IN ('UPDATE', 'DELETE', 'TRUNCATE')
"""


class Command(migrate.Command):
    def execute(self, *args: Any, **options: Any) -> str | None:
        pool.stop_pooling()  # a pool would say that it got no connection, and not why
        try:
            return super().execute(*args, **options)
        except pool.UNAVAILABLE as error:
            raise CommandError(f"The database was not migrated: {error}") from None

    def handle(self, *args: Any, **options: Any) -> None:
        super().handle(*args, **options)
        with connections[options["database"]].cursor() as cursor:
            cursor.execute(_GRANTEES, [list(APPEND_ONLY)])
            for table, role in cursor.fetchall():
                cursor.execute(f"REVOKE UPDATE, DELETE, TRUNCATE ON {table} FROM {role}")  # both are quoted where need be
