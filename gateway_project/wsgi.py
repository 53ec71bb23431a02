"""The WSGI application. It refuses to start on a configuration that the system checks refuse."""

import io
import os

from django.core.management import call_command
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")

application = get_wsgi_application()
# gunicorn, unlike runserver, runs no checks of its own. What they find goes to stderr; that they found nothing, nowhere.
call_command("check", fail_level="ERROR", stdout=io.StringIO())
