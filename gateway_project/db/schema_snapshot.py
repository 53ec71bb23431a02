"""The tables of an empty database, all at once: ``schema.sql`` is what the migrations make, as ``pg_dump`` writes it.

Django computes the state of all models anew after each operation, so migrating an empty database takes seconds.
``make schema`` writes the file. Migrations that are newer than the file run after it, as they do in any other database.
"""

from pathlib import Path

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

FILE = Path(__file__).with_name("schema.sql")

_LOCK = 0x736E617073686F74  # of two hosts that migrate the same empty database, one loads the file

# The file names the schema "public", and its functions look into that. The objects of an extension do not count.
# In a database with Citus the migrations run one by one: it takes one statement at a time.
_IS_EMPTY = """
SELECT current_schema() = 'public' AND current_setting('search_path') = '"$user", public'
    AND NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')
    AND NOT EXISTS (
        SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace
            AND oid NOT IN (SELECT objid FROM pg_depend WHERE classid = 'pg_class'::regclass AND deptype = 'e')
    )
"""


def load(connection: BaseDatabaseWrapper) -> bool:
    """Fill an empty database from the file, in one transaction. Return whether it was empty. Raises the database's errors."""
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        cursor.execute(_IS_EMPTY)
        [is_empty] = cursor.fetchone()
        if is_empty:
            cursor.execute(FILE.read_text())
        return bool(is_empty)
