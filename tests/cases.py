"""Cases of one test that begin with the same rows: making those is most of the time of a small test.

A test loops over its cases with pytest's ``subtests``, so that a failure names every case that failed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from django.db import connection, transaction


@contextmanager
def undone() -> Iterator[None]:
    """Run a case in a savepoint, check its deferred constraints as at the end of a test, and undo what it wrote."""
    savepoint = transaction.atomic()
    # Like the test's own transaction, it does not count as one of the product's.
    savepoint._from_testcase = True  # type: ignore[attr-defined]
    with savepoint:
        yield
        if not transaction.get_rollback():  # a failed test has set it
            connection.check_constraints()
            transaction.set_rollback(True)


def raising(error: BaseException | type[BaseException]) -> Callable[..., NoReturn]:
    """Return a function that fails, to replace one that a test cannot make fail."""

    def fail(*args: Any, **options: Any) -> NoReturn:
        raise error

    return fail
