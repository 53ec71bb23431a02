#!/usr/bin/env python
"""Django's command line. Without DATABASE_URL it uses the embedded PostgreSQL, and starts it if it does not run."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    from django.core.exceptions import ImproperlyConfigured

    from gateway_project.local import development, embedded

    try:
        development.prepare(os.environ)
    except (embedded.CannotStart, ImproperlyConfigured) as error:
        sys.exit(str(error))
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
