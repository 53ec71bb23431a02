"""The support desk: what the admin shows that several apps contribute to.

Nothing here imports an app: each names its panels, sections and finders in the method ``desk`` of its ``apps.py``.

- ``panels``         what the home page and an account's page show
- ``chosen_cell``    the cell whose lists staff see
- ``search``         the search box of every page, and its page: finds what staff may view by an id, an address or a name
- ``short_ids``      ids as lists show them: their beginning and their end
- ``forms``          forms of acts, which act once and refuse what changed since they were opened
"""
