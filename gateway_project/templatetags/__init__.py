"""Filters and tags for templates of all apps.

- ``amounts``  amounts of money, rounded, with the exact one at hand
- ``code``     colours of code
- ``site``     the frame of pages
- ``pauses``   the tag ``for``, which lets others be served
"""
