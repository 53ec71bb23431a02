"""The WSGI application. It does not start when a system check reports an error: gunicorn, unlike runserver, runs no checks."""

import os

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler

from gateway_project import startup
from gateway_project.db import pool

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")

startup.start()
pool.limit_queries(settings.PAGE_QUERY_SECONDS)
application = WSGIHandler()
