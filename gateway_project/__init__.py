"""The frame of the house: settings, addresses, errors and the doors to the outside.

    leaves of this package  <-  billing  <-  keys  <-  completions
    rankings stands beside: it may import the catalog (completions.models) and leaves

A leaf says so in the first word of its docstring; it imports no app, and of this package leaves only. Every other module
here wires the apps together and is imported by none of them. ``tests/test_import_law.py`` reads the syntax trees and holds
us to it.
"""

from gateway_project.celery import app as celery_app

__all__ = ["celery_app"]
