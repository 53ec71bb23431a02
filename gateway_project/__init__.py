"""The frame of the house: settings, addresses, errors and the doors to the outside.

    leaves of this package  <-  billing  <-  keys  <-  completions
    rankings stands beside: it may import the catalogue (completions.models) and leaves

Leaves (``errors``, ``http``, ``strict_json``, ``secretbox``, ``identifiers``, ``database``, ``environment``,
``request_log``, ``pages``) import no app. ``urls*``, ``settings``, ``celery``, ``wsgi``, ``health``,
``quickstart`` and ``supervisor`` wire the apps together and are imported by none of them.
``tests/test_import_law.py`` reads the syntax trees and holds us to it.
"""

from gateway_project.celery import app as celery_app

__all__ = ["celery_app"]
