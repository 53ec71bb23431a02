#!/usr/bin/env python
"""Django's command line. On a developer's machine it uses the embedded PostgreSQL, and starts it if it does not run."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    import django
    from django.core.exceptions import ImproperlyConfigured

    from gateway_project.local import development, embedded

    is_check = sys.argv[1:2] == ["check"] and "--database" not in " ".join(sys.argv)
    try:
        # To check makes nothing: it says what an environment lacks that nobody has prepared yet.
        if not is_check or development.is_prepared(os.environ):
            development.prepare(os.environ)
        django.setup()
    except (embedded.CannotStart, ImproperlyConfigured) as error:
        sys.exit(str(error))
    if not is_check:
        _require_database()
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


def _require_database() -> None:
    """End the process if no database is configured. ``check`` alone goes on, and lists what else is missing."""
    from gateway_project import checks, startup

    if missing := checks.missing_database():
        sys.exit(startup.describe(missing))


if __name__ == "__main__":
    main()
