"""Requests while the database is unavailable."""

import threading
from collections.abc import Callable
from typing import Any

from django.db import connection


def with_the_database_unavailable(send: Callable[[], Any]) -> Any:
    """Call ``send`` in a thread whose database connection points to a closed port."""
    replies = []

    def run() -> None:
        connection.settings_dict = {**connection.settings_dict, "HOST": "127.0.0.1", "PORT": "1"}
        replies.append(send())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return replies[0]
