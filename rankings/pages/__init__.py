"""The ranking pages for people: the list of models, and a page for each model. Public, without cookies or scripts.

Imports ``rankings.api.filters``, since its parameters are the API's, and the packages below ``rankings.api``.

- ``views``        the two pages, rendered and cached
- ``query``        reads the query of a page; makes addresses, the form, the headings and the pager
- ``rows``         rows of the tables, and what is drawn
- ``explanation``  a score as sums that a reader can do again
- ``summary``      what a model's own page says of its scores
- ``plots``        pure: coordinates of the charts
- ``urls``
"""
