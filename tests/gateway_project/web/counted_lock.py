"""A lock that counts its turns."""

import threading


class CountedLock:
    """The lock of the turns, which counts them."""

    def __init__(self):
        self.turns, self._lock = 0, threading.Lock()

    def acquire(self):
        self.turns += 1
        self._lock.acquire()

    def release(self):
        self._lock.release()
