"""The WSGI application. It does not start when a system check reports an error."""

import io
import os

from django.core.management import call_command
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")

application = get_wsgi_application()
# gunicorn, unlike runserver, runs no checks. Their findings go to stderr; the line "no issues" on stdout is dropped.
call_command("check", fail_level="ERROR", stdout=io.StringIO())
# The one check that must ask the database. It finds nothing while there is none.
call_command("check", tags=["pooler"], databases=["default"], fail_level="ERROR", stdout=io.StringIO())
