"""Writes ``gateway_project/db/schema.sql`` (``make schema``): runs all migrations in a PostgreSQL that is then removed."""

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile

import psycopg

from gateway_project.db import schema_snapshot
from gateway_project.local import development, postgresql

_HEAD = """\
-- What the migrations make of an empty database. `make schema` writes this file, and schema_snapshot.py loads it.
SET LOCAL check_function_bodies = false;
"""
_PREAMBLE = re.compile(r".*?^SET row_security = off;\n", re.DOTALL | re.MULTILINE)
_NOTES = re.compile(
    r"^--\n(?:-- .*\n)*--\n|^SET default_\w+ = .*\n|^\\unrestrict .*\n|^SELECT .*\.setval\(.*, 1, false\);\n", re.MULTILINE
)


def main() -> None:
    directory = tempfile.mkdtemp(prefix="schema-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)  # runs when PostgreSQL has stopped
    environ = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    environ |= {"GATEWAY_VAR": directory, "GATEWAY_DEVELOPMENT": "1"}
    development.prepare(environ)
    migrate = [sys.executable, "manage.py", "migrate", "--from-migrations", "--verbosity=0"]
    subprocess.run(migrate, env=environ, cwd=development.ROOT, check=True)  # noqa: S603
    schema_snapshot.FILE.write_text(dump(environ["DATABASE_URL"]))


def dump(url: str) -> str:
    """Return the content of the file: statements that make the tables and rows of this database, by the wheel's ``pg_dump``."""
    options = ["--no-owner", "--no-privileges", "--rows-per-insert=1000", "--exclude-table-data=django_migrations*"]
    command = [str(postgresql.programs() / "pg_dump"), *options, url]
    dumped = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    statements = _NOTES.sub("", _PREAMBLE.sub("", dumped, count=1))
    with psycopg.connect(url) as connection:  # Django applies migrations in another order each time
        names = connection.execute("SELECT app, name FROM django_migrations ORDER BY app, name").fetchall()
    rows = ",\n".join(f"\t('{app}', '{name}', now())" for app, name in names)
    migrations = f"INSERT INTO public.django_migrations (app, name, applied) VALUES\n{rows};"
    return _HEAD + re.sub(r"\n{3,}", "\n\n", statements).rstrip() + f"\n\n{migrations}\n"


if __name__ == "__main__":
    main()
