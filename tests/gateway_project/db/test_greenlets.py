"""Under gevent a query yields to other greenlets, and each greenlet has its own database connection."""

import os
import subprocess
import sys

import pytest

from gateway_project.local import development

# One greenlet waits in the database for a lock that another one holds. Without a cooperative wait the first would block the
# whole process, and neither would end.
PROGRAM = """
from gevent import monkey
monkey.patch_all()
import django
django.setup()
import gevent
from django.db import connection

has_lock = gevent.event.Event()

def ask(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]

def hold():
    ask("SELECT pg_advisory_lock(4711)::text")
    has_lock.set()
    while not ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted"):
        gevent.sleep(0.01)
    ask("SELECT pg_advisory_unlock(4711)")
    return ask("SELECT pg_backend_pid()")

def wait():
    has_lock.wait()
    ask("SELECT pg_advisory_lock(4711)::text")
    return ask("SELECT pg_backend_pid()")

holder, waiter = gevent.spawn(hold), gevent.spawn(wait)
gevent.joinall([holder, waiter], raise_error=True)
print("two connections" if holder.value != waiter.value else "one connection")
"""


@pytest.mark.system
def test_a_greenlet_that_waits_in_the_database_does_not_block_others():
    environ = {**os.environ, "DJANGO_SETTINGS_MODULE": "gateway_project.settings", "GATEWAY_DATABASE_POOL_SIZE": "4"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environ, cwd=development.ROOT, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, "two connections\n"), done.stderr
