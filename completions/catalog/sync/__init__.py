"""Catalog sync: compares providers' own lists of models with the catalog, and proposes the differences.

Imports what ``completions.catalog`` may import, and of the catalog ``lookup``, ``rules`` and ``writes``.

- ``proposals``  a sync from beginning to end; approving and dismissing proposals
- ``parse``      reads a list: which fields and prices are plausible
- ``diff``       compares a list with the catalog; the rule for changes that need no approval
- ``admin``      the admin's pages of proposals and lists
"""
