"""The published rankings: entries in the database, and their copy in memory. Imports ``rankings.scoring`` and below.

- ``publication``       replaces the entries of a source, and counts publications
- ``internal``          makes the entries of INTERNAL, by the formula
- ``external``          the models with a price; makes the entries of a fetched source
- ``routable_aliases``  writes ids such as best/coding, which follow the entries of INTERNAL
- ``doubts``            why a run must not be published before staff have seen it
- ``health``            which sources are healthy, and why not
- ``listing``           the published entries in memory, to search, filter and sort
"""
