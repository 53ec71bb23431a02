"""The WSGI application. It runs the system checks, which gunicorn does not.

The API is loaded before a worker serves, and pages with the first visit: many workers never show any.
"""

import importlib
import os
import sys

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler

from gateway_project import startup
from gateway_project.db import pool

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")

startup.start(checks_code="--check-config" in sys.argv)  # gunicorn's option: it tries new code before workers load it
importlib.import_module("gateway_project.urls.api")
pool.limit_queries(settings.PAGE_QUERY_SECONDS)
application = WSGIHandler()
