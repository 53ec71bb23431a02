"""Which of our models a name at a source means. Imports ``rankings.sources``, ``rankings.models`` and the catalog.

- ``mapping``          keeps the mapping as rows of ``Alias``: from staff, the curated file, declared links and rules
- ``rules``            the rules: pure and exact
- ``identities.toml``  the curated file, for the built-in catalog
"""
