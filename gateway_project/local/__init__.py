"""``make run``: the whole gateway on one machine, with an embedded PostgreSQL and Redis. Imports no app.

- ``supervisor``   runs web, worker and beat until one ends
- ``preparation``  what happens before they start
- ``schema_dump``  writes what an empty database gets
- ``development``  fills in DATABASE_URL, REDIS_URL and secrets, also for ``manage.py``
- ``postgresql``   the embedded PostgreSQL
- ``redis``        the embedded Redis
- ``embedded``     what the two embedded servers share
"""
