"""What happens to a gateway whose store is away."""

import threading
from collections.abc import Callable
from typing import Any

from django.db import connection


def where_the_database_is_away(send: Callable[[], Any]) -> Any:
    """``send`` from a thread of its own, whose connection goes where nobody listens."""
    replies = []

    def run() -> None:
        connection.settings_dict = {**connection.settings_dict, "HOST": "127.0.0.1", "PORT": "1"}
        replies.append(send())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return replies[0]
