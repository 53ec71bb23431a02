"""The WSGI application. It does not start when a system check reports an error: gunicorn, unlike runserver, runs no checks."""

import os

from django.core.handlers.wsgi import WSGIHandler

from gateway_project import startup

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")

startup.start()
application = WSGIHandler()
