"""One migrated database, of which each process that runs tests gets a copy.

A copy takes a tenth of a second, the migrations take seconds. The name of the template is a digest of the migrations, so that
a changed migration makes another template.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import connection

from gateway_project.cells import structure
from gateway_project.cells.models import Cell
from gateway_project.db import schema_snapshot
from tests import cells

ROOT = Path(__file__).resolve().parent.parent
_PREFIX = "gateway_template_"
_LOCK = 7_130_004  # an advisory lock: one process makes the template, others wait for it


def create_copy() -> None:
    """Make the test database of this process from the template, and connect to it from now on."""
    template, name = _template(), connection.creation._get_test_db_name()  # type: ignore[attr-defined]
    with connection._nodb_cursor() as cursor:
        cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        cursor.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    use(name)


def drop_copy() -> None:
    """Drop the test database of this process."""
    connection.close()
    with connection._nodb_cursor() as cursor:
        cursor.execute(f'DROP DATABASE "{connection.settings_dict["NAME"]}" WITH (FORCE)')


def _template() -> str:
    """Return the name of the template. Make it, and drop those of other migrations, if it does not exist."""
    prefix = f"{_PREFIX}{_digest()}_"
    name = f"{prefix}{cells.NUMBER}"
    with connection._nodb_cursor() as cursor, _locked(cursor):
        cursor.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [_PREFIX])
        existing = {row[0] for row in cursor.fetchall()}
        if name not in existing:
            for outdated in (each for each in existing if not each.startswith(prefix)):
                cursor.execute(f'DROP DATABASE "{outdated}" WITH (FORCE)')
            draft = f"{_PREFIX}draft"
            cursor.execute(f'CREATE DATABASE "{draft}" TEMPLATE template0')
            _migrate(draft)
            cursor.execute(f'ALTER DATABASE "{draft}" RENAME TO "{name}"')
    return name


def _digest() -> str:
    """Return a digest of all that decides about the rows and tables of an empty database: migrations, ours and of packages."""
    project = ROOT / "gateway_project"
    groups = [project / "activity" / "staff_groups.py", project / "cells" / "structure.py", ROOT / "requirements.txt"]
    groups += [schema_snapshot.FILE]
    paths = sorted([*ROOT.glob("*/migrations/*.py"), *ROOT.glob("gateway_project/*/migrations/*.py"), *groups])
    return hashlib.sha256(b"".join(str(path.name).encode() + path.read_bytes() for path in paths)).hexdigest()[:16]


@contextmanager
def _locked(cursor: Any) -> Iterator[None]:
    cursor.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
    try:
        yield
    finally:
        cursor.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])


def _migrate(name: str) -> None:
    own = connection.settings_dict["NAME"]
    use(name)
    call_command("migrate", verbosity=0)
    for number in range(2, cells.NUMBER + 1):
        structure.create(number)
        Cell.objects.create(number=number, is_open=True)
    use(own)


def use(name: str) -> None:
    """Connect Django to this database from now on."""
    connection.close()
    settings.DATABASES[connection.alias]["NAME"] = connection.settings_dict["NAME"] = name
