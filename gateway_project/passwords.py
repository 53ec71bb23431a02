"""LEAF. Checking a password takes a fifth of a second, on purpose; a worker's other requests must not wait for it."""

import gevent
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from gevent.lock import BoundedSemaphore

_AT_ONCE_MAX = 2  # more would take the processor from completions; who signs in waits in line


class OffloadedPBKDF2PasswordHasher(PBKDF2PasswordHasher):
    """Django's own, computed in a thread beside the event loop. What it stores is the same."""

    _turns = BoundedSemaphore(_AT_ONCE_MAX)

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        with self._turns:
            encoded: str = gevent.get_hub().threadpool.apply(super().encode, (password, salt, iterations))
        return encoded
