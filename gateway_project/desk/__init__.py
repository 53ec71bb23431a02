"""The support desk: what the admin shows that several apps contribute to.

An app has a package ``desk`` for what it contributes, in modules with the names of those here. They are collected as the facts
of monitoring are (``gateway_project.contributions``): nothing here imports an app.

- ``panels``         what the home page shows
- ``cells``          the cell whose lists staff see
- ``search``         the search box of every page: finds what staff may view by an id, an address or a name
- ``short_ids``      ids as lists show them: their beginning and their end
- ``views``          the search page
- ``sections``       the sections of an account's page
- ``forms``          forms of acts, which act once and refuse what changed since they were opened
- ``acts``           acts by such a form
"""
