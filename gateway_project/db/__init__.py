"""Access to PostgreSQL below the ORM. Imports no app and no other folder of gateway_project.

- ``pool``                   configuration, the request pool's connections, the database's clock, a time limit
- ``group_commit``           concurrent callers share one transaction
- ``pipelined_transaction``  short transactions in two round trips, with prepared statements
"""
