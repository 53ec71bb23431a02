"""Cells: each account has its rows in one of them. An installation has one cell, until an operator adds another.

A cell is a schema of PostgreSQL with tables of its own for all that accounts own. Other data is in ``public``, once:
users, the catalog, the rankings, and the directory, which says where accounts are. The tables of the first cell are in
``public`` as well. A Django app of its own. Imports ``gateway_project.db`` and no app.

- ``models``       Cell; the directory: AccountPlace, UserPlace, Reference; and SignedDay
- ``directory``    finds the cells of accounts; ReferredModel: a table whose rows are looked up before their account is known
- ``citus``        what Citus is told, where it is installed
- ``structure``    adds a cell: SQL that makes its tables; applies migrations to all cells
- ``moving``       moves the rows of an account to another cell
"""
