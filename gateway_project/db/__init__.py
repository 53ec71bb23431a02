"""Access to PostgreSQL below the ORM, and to large tables by their keys. Imports no app and no other folder of gateway_project.

- ``owned``                  OwnedModel, the base of the tables that each cell has
- ``constraints``            CHECK constraints of models, each named as a sentence
- ``cell``                   the schema in which the names of accounts' tables are looked up, and which cells there are
- ``everywhere``             does in each cell what is about all accounts
- ``direct_connections``     connections apart from Django's, and connections that the server has closed
- ``circuit_breaker``        refuses work at once while the database does not answer
- ``pool``                   configuration, the request pool's connections, reads, the database's clock, a time limit
- ``newest_first``           pages and batches of a large table, by the ORM
- ``schema_snapshot``        the tables of an empty database, all at once
- ``backend``                Django's engine, with connections that are checked before use
- ``repetition``             work in the background, whose failure ends one attempt only
- ``group_commit``           concurrent callers share one transaction
- ``durability``             waits for the disk apart from the commit
- ``pipelined_transaction``  short transactions in two round trips, with prepared statements
"""
