"""Password hashing outside the event loop: it takes a fifth of a second on purpose, and must not delay other requests."""

import gevent
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from gevent.lock import BoundedSemaphore

_CONCURRENT_MAX = 2  # more would take the processor from completions; further sign-ins wait


class OffloadedPBKDF2PasswordHasher(PBKDF2PasswordHasher):
    """Django's PBKDF2 hasher, run in a thread pool. It stores the same hashes."""

    _semaphore = BoundedSemaphore(_CONCURRENT_MAX)

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        with self._semaphore:
            encoded: str = gevent.get_hub().threadpool.apply(super().encode, (password, salt, iterations))
        return encoded
