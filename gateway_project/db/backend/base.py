"""The class that Django looks for in an engine's ``base`` module."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from django.db.backends.postgresql import base
from psycopg.pq import TransactionStatus

from gateway_project.db import cell, direct_connections
from gateway_project.db.circuit_breaker import REFUSED_SECONDS, process_circuit


class DatabaseWrapper(base.DatabaseWrapper):
    """Connects like Django's own wrapper, but leaves out connections of the pool that ended while they were idle.

    Django's own check is a round trip for each use, and after a restart the pool pauses longer and longer between two
    connections that fail it. While the circuit of the database is open, no connection is handed out; while the database refuses
    new ones, no request waits for one. It counts which statements are answered, and sends each in the current cell.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.execute_wrappers.append(self._execute_counted)

    def _execute_counted(self, execute: Callable[..., Any], *statement: Any) -> Any:
        with process_circuit.statement(self.connection):
            with self.wrap_database_errors:
                cell.follow(self.connection)
            return execute(*statement)

    def _commit(self) -> None:
        with self._counted_end():
            super()._commit()  # type: ignore[misc]

    def _rollback(self) -> None:
        cell.forget(self.connection)
        with self._counted_end():
            super()._rollback()  # type: ignore[misc]

    def _savepoint_rollback(self, sid: str) -> None:
        super()._savepoint_rollback(sid)  # type: ignore[misc]
        cell.forget(self.connection)

    def _counted_end(self) -> AbstractContextManager[None]:
        # Nothing is sent when no transaction has begun.
        is_sent = self.connection is not None and self.connection.info.transaction_status != TransactionStatus.IDLE
        return process_circuit.statement(self.connection) if is_sent else nullcontext()

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        process_circuit.require_closed()
        if self.pool:
            self.pool.timeout = REFUSED_SECONDS if process_circuit.refusal else self.settings_dict["OPTIONS"]["pool"]["timeout"]
        with process_circuit.probe_if_slow():
            return self._working_connection(conn_params)

    def _configure_connection(self, connection: Any) -> bool:
        super()._configure_connection(connection)  # type: ignore[misc]
        with connection.cursor() as cursor:
            cursor.execute(direct_connections.session_sql())
            if seconds := self.settings_dict.get("STATEMENT_SECONDS"):
                cursor.execute(f"SET statement_timeout = '{int(seconds)}s'")
        return True  # there is something to commit, if the connection is not in autocommit mode

    def _working_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        while self.pool and direct_connections.has_ended(connection.fileno()):
            connection.close()
            self.pool.putconn(connection)  # the pool opens another one for it
            connection = super().get_new_connection(conn_params)
        return connection
