"""Fixtures of all tests: accounts, API clients, and the state that tests must not leave to each other.

alice has $10 of credit, bob has no credit, and charlie owns an unrelated account with credit.
"""

import contextvars
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest
from celery import Task
from django.conf import settings
from django.core.cache import cache
from django.core.management.base import BaseCommand
from django.core.signals import request_finished
from django.db import close_old_connections, connection
from django.db.models.signals import pre_save
from django.test import TransactionTestCase, override_settings
from django.test.client import ClientHandler
from gevent import get_hub
from rest_framework.test import APIClient
from whitenoise.middleware import WhiteNoiseMiddleware

from billing.models import Account
from billing.sign_in import limits
from completions.catalog import lookup
from completions.relay import attempts, circuit_breaker, route_health
from gateway_project.activity.models import Activity
from gateway_project.cells import directory
from gateway_project.db import cell
from gateway_project.db.pipelined_transaction import PipelinedConnection
from gateway_project.web import in_flight
from tests import cells, factories, mutant_plugin, template_database, template_names, written_rows
from tests.base_rows import BaseRows
from tests.offer_reads import OfferReads

# The same examples in each run, without a deadline. State machines (``tests.state_machines``) draw new ones in each run.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")


_open_streams: list[Any] = []  # replies of this test that are streams


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several cells leave out what has no database, and skip what counts statements or is always in the first cell."""
    if cells.NUMBER == 1:
        return
    items[:] = [item for item in items if _uses_database(item)]
    for item in items:
        if item.get_closest_marker("one_cell"):
            item.add_marker(pytest.mark.skip("it is about one cell"))


def _uses_database(item: pytest.Item) -> bool:
    names = {*getattr(item, "fixturenames", ())}
    return bool(names & {"db", "transactional_db"}) or item.get_closest_marker("django_db") is not None


def pytest_collection_finish() -> None:
    """Take what was collected out of the garbage collector's sight. To look at it again and again is a tenth of the suite."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Close what a test has not read to its end, while it has its database.

    Else the garbage collector closes it later, within a statement of another test: the settlement then waits for the
    connection that this statement uses, for ever. As in a test client, the connection of the test stays open: a new one plans
    the whole audit anew, which takes a third of a second.
    """
    request_finished.disconnect(close_old_connections)
    try:
        while _open_streams:
            _open_streams.pop().close()
    finally:
        request_finished.connect(close_old_connections)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> None:
    # Transactions of tests wait for each other for as long as the machine takes. Gateways under test keep their own limits.
    connection.settings_dict["SESSION"] = {"lock_timeout": "90s", "idle_in_transaction_session_timeout": "180s"}
    connection.settings_dict["BATCH_SESSION"] = {}


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None, django_db_modify_db_settings: None, django_db_blocker: Any
) -> Iterator[None]:
    """Give this process a copy of the migrated database. After a transactional test, delete only what it wrote."""
    with django_db_blocker.unblock():
        template_database.create_copy()
        cell.read_again()
    cell.enter(cells.NUMBER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda case: written_rows.delete())
        patch.setattr(TransactionTestCase, "_should_reload_connections", lambda case: False)
        yield
    written_rows.close()
    with django_db_blocker.unblock():
        PipelinedConnection.close_all()  # open connections would keep the test database from being dropped
        template_database.drop_copy()


@pytest.fixture(autouse=True, scope="session")
def _test_clients() -> Iterator[None]:
    """Let test clients list the static files once, as each makes the middleware anew; and note what they stream.

    The middleware itself is not shared: Python 3.13.0 crashed in one that many tests had used.
    """
    files: dict[str, Any] = {}
    list_files, answer = WhiteNoiseMiddleware.add_files_from_finders, ClientHandler.__call__

    def share_files(middleware: WhiteNoiseMiddleware) -> None:
        if not files:
            list_files(middleware)
            files.update(middleware.files)
        middleware.files = files

    def answer_and_note_streams(handler: ClientHandler, environ: dict[str, Any]) -> Any:
        with cell.use(cell.FIRST):  # the request finds its cell by itself, and leaves the test in that of its own
            reply = answer(handler, environ)
        if reply.streaming:
            _open_streams.append(reply)
        return reply

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClientHandler, "__call__", answer_and_note_streams)
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", share_files)
        yield


@pytest.fixture(autouse=True, scope="session")
def _entry_points_begin_in_the_first_cell() -> Iterator[None]:
    """Commands and tasks find their cells by themselves, as requests do. Threads of tests call what is within a request."""
    start, execute, run_task = threading.Thread.start, BaseCommand.execute, Task.__call__

    def start_in_cell(thread: threading.Thread) -> None:
        context, run = contextvars.copy_context(), thread.run
        thread.run = lambda: context.run(run)  # type: ignore[method-assign]
        start(thread)

    def in_first_cell(run: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **options: cell.use(cell.FIRST)(run)(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        if cells.NUMBER > 1:
            patch.setattr(threading.Thread, "start", start_in_cell)
            patch.setattr(BaseCommand, "execute", in_first_cell(execute))
            patch.setattr(Task, "__call__", in_first_cell(run_task))
        yield


@pytest.fixture(autouse=True, scope="session")
def _templates_are_watched() -> Iterator[None]:
    with template_names.watched():
        yield


@pytest.fixture(autouse=True, scope="session")
def _acts_are_recorded_in_transactions() -> Iterator[None]:
    """Fail where an act is recorded outside of a transaction of the product. Those of the tests would hide it."""

    def require_transaction(**kwargs: Any) -> None:
        is_of_test = [block._from_testcase for block in connection.atomic_blocks]  # type: ignore[attr-defined]
        assert not all(is_of_test), "the act and its record are apart"

    pre_save.connect(require_transaction, sender=Activity)
    yield
    pre_save.disconnect(require_transaction, sender=Activity)


@pytest.fixture(autouse=True, scope="session")
def _unhurried_settings() -> Iterator[None]:
    """Let tests hash passwords cheaply (the real way takes a fifth of a second), follow their links, and wait for nothing.

    They ask for more pages in a second than a person does, so no page waits for the pace of its owner.
    """
    names = {
        "PASSWORD_HASHERS": ["django.contrib.auth.hashers.MD5PasswordHasher"],
        "LOCAL_HOSTS": [*settings.LOCAL_HOSTS, "testserver"],
    }
    with pytest.MonkeyPatch.context() as patch, override_settings(**names):
        patch.setattr("completions.charging.recovery.sweeper._RECHECK_SECONDS", 0)
        patch.setattr(in_flight, "_AHEAD_SECONDS", 1_000_000)
        patch.setattr(cell, "READ_SECONDS", 1_000_000)  # tests that count statements have the same number each time
        yield


@pytest.fixture(scope="session")
def offer_reads() -> Iterator[OfferReads]:
    reads = OfferReads()
    connection.execute_wrappers.append(reads.watch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "_read_offer", reads.read_offer)
        yield reads


@pytest.fixture(autouse=True)
def _nothing_left_behind(
    request: pytest.FixtureRequest, _templates_are_watched: None, _unhurried_settings: None, offer_reads: OfferReads
) -> Iterator[None]:
    """Forget what a test leaves in memory. Fail where a template named what it was not given.

    One fixture, because each that every test has costs minutes of the whole suite.
    """
    template_names.missing.clear()
    offer_reads.begin(is_kept=mutant_plugin.mutant_of(request.node) == "")
    yield
    cell.enter(cells.NUMBER)
    directory._places.clear()
    cache.clear()  # of used codes, by the id of their user
    circuit_breaker._routes.clear()
    attempts.reply_seconds.clear()
    route_health._faults.clear()
    limits._next_attempts.clear()
    if ticker := vars(get_hub()).get("ticker"):
        ticker.alarms.clear()  # that of a reply which a test did not read to its end would ring in a later test
    assert not template_names.missing


@pytest.fixture(scope="session")
def base_rows(django_db_setup: None, django_db_blocker: Any, _unhurried_settings: None) -> BaseRows:
    def account(name: str, cents: int = 0) -> Account:
        return factories.make_account(name, cents=cents, owner=factories.make_user(f"{name.lower()}@example.org"))

    builders = {
        "alice": lambda: account("Alice", 1000),
        "bob": lambda: account("Bob"),
        "charlie": lambda: account("Charlie", 1000),
        "demo/echo": lambda: factories.make_model("demo/echo"),
        "acme/large": factories.make_large_model,
    }
    with django_db_blocker.unblock():
        return BaseRows(written_rows.tables(), builders)


@pytest.fixture
def alice(db: None, base_rows: BaseRows) -> Account:
    return base_rows.insert("alice")


@pytest.fixture
def bob(db: None, base_rows: BaseRows) -> Account:
    return base_rows.insert("bob")


@pytest.fixture
def charlie(db: None, base_rows: BaseRows) -> Account:
    return base_rows.insert("charlie")


def client_for(secret: str | None) -> APIClient:
    """Return a client that sends JSON with this API key."""
    client = APIClient(raise_request_exception=False)
    client.default_format = "json"
    if secret:
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client


@pytest.fixture
def api(alice: Account) -> APIClient:
    """A client that uses a key of alice's account."""
    return client_for(factories.make_key(alice)[1])


@pytest.fixture
def echo_model(db: None, base_rows: BaseRows) -> Any:
    return base_rows.insert("demo/echo")
