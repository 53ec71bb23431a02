"""Does in each cell what is about all accounts. A cell that is unavailable holds up no other."""

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from itertools import chain
from typing import Any, ParamSpec, TypeVar

from django.db import connection, transaction

from gateway_project import errors
from gateway_project.db import cell, pool

logger = logging.getLogger("gateway.cells")

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def run(work: Callable[[], Result], *, may_miss: bool = False, numbers: Sequence[int] = ()) -> list[Result]:
    """Return the result of ``work`` in each cell, or in those with these numbers.

    The first error is raised after all had their turn. With ``may_miss``, unavailable cells but the first have no result.
    """
    done, failures = [], dict[int, Exception]()
    for number in numbers or cell.numbers():
        with cell.use(number):
            try:
                done.append(work())
            except pool.DATABASE_ERRORS as error:
                failures[number] = error
    for number, failure in failures.items():
        if not may_miss or number == cell.FIRST:
            raise failure
        _report(number, failure)
    return done


def gather(read: Callable[[], Iterable[Result]], *, may_miss: bool = False) -> list[Result]:
    """Return the rows that ``read`` finds in each cell, one cell's after the other's."""
    return list(chain.from_iterable(run(lambda: list(read()), may_miss=may_miss)))


def find(read: Callable[[], Result | None], numbers: Iterable[int] = ()) -> Result | None:
    """Return what ``read`` finds in the first of the cells in which it finds something, and enter that cell."""
    earlier = cell.current()
    for number in numbers or cell.numbers():
        cell.enter(number)
        if found := read():
            return found
    cell.enter(earlier)
    return None


def merge(rows: Sequence[Any], weight: str, *, sums: Iterable[str], means: Iterable[str]) -> dict[str, Any]:
    """Return figures of several cells as one: sums, and means by the figure ``weight``, also of medians and percentiles."""
    merged: dict[str, Any] = {name: sum(getattr(row, name) for row in rows) for name in sums}
    for name in means:
        weighted = [(value, getattr(row, weight)) for row in rows if (value := getattr(row, name)) is not None]
        weights = sum(number for _, number in weighted)
        value = sum(value * number for value, number in weighted) / weights if weights else None
        merged[name] = round(value) if value is not None and name.endswith("_ms") else value
    return merged


def answers() -> dict[int, bool]:
    """Return of each cell whether it answers now; nothing where there is one, of which the database's own errors tell."""
    found = {}
    for number in cell.numbers() if cell.are_several() else []:
        try:
            with cell.use(number), transaction.atomic():
                cell.execute("SET LOCAL statement_timeout = '2s'")
                cell.execute("SELECT 1 FROM billing_account LIMIT 1")
            found[number] = True
        except pool.DATABASE_ERRORS as error:
            _report(number, error)
            found[number] = False
    return found


def each(task: Callable[Parameters, int]) -> Callable[Parameters, int]:
    """Let a task run in each cell, side by side, and return the sum of its results. An error is raised when all have ended."""

    @wraps(task)
    def run(*args: Parameters.args, **options: Parameters.kwargs) -> int:
        numbers = cell.numbers()
        if len(numbers) == 1:
            return task(*args, **options)
        is_in_transaction = pool.is_in_transaction()  # other threads would not see what it has written

        def run_in(number: int) -> int | Exception:
            try:
                with cell.use(number):
                    return task(*args, **options)
            except Exception as error:
                _report(number, error)
                return error
            finally:
                if not is_in_transaction:
                    connection.close()  # that of this thread

        with ThreadPoolExecutor(len(numbers)) as executor:
            outcomes = list(map(run_in, numbers) if is_in_transaction else executor.map(run_in, numbers))
        failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        if failures:  # one after which the task is tried again, if there is one
            raise next((each for each in failures if isinstance(each, pool.UNAVAILABLE)), failures[0])
        return sum(outcome for outcome in outcomes if isinstance(outcome, int))

    return run


def _report(number: int, error: Exception) -> None:
    logger.error("cell %d: %s", number, errors.reason(error), extra={"cell": number})
