"""Keeps credentials that expire: fetched and renewed ahead of time, outside of requests, in the memory of this process alone.

Each provider with such a credential has one ``Keeper`` in a process, with a thread of its own, which is a greenlet in a web
process. All requests share what it has. A renewal that fails is repeated, while the last credential is still good for use. Once
that has expired, or was refused and has no successor, requests fail with the reason: the provider then counts as one that
refuses its key (``relay.route_health``), until a request succeeds.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import ClassVar, NamedTuple

import msgspec

from completions.chat import Proof
from completions.providers import masking

logger = logging.getLogger("gateway.provider_keys")

WAIT_SECONDS = 10  # that a request waits for a credential which is being fetched
_AHEAD_SECONDS = 300  # before it expires, a credential is renewed; at the latest at half of its life
_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 1, 60  # between two attempts, also of those that fail
_UNUSED_SECONDS = 3_600  # after the last request, a credential is no longer renewed
_FORCED_SECONDS = 10  # a successor that is refused as well is not replaced at once
_REASON_CHARACTERS_MAX = 300
# The type of ``auth`` in a catalog file, whose module here fetches -> the library that it needs.
SOURCES = {"google": "google.auth", "aws": "botocore", "azure": "azure.identity"}


class CredentialUnavailable(Exception):
    """There is no credential that could be shown. The message is the reason, without a secret."""


class Bearer(msgspec.Struct, frozen=True):
    """An access key, shown as ``Authorization: Bearer``."""

    secret: str
    hint: ClassVar[str] = ""

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.secret,)

    def headers(self, method: str, url: str, body: bytes) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}"}


class Fetched(NamedTuple):
    """A credential: how long it may be shown, and after how many seconds it is renewed."""

    proof: Proof
    good_seconds: float
    renewed_after_seconds: float

    @classmethod
    def until_expiry(cls, proof: Proof, seconds: float) -> "Fetched":
        return cls(proof, seconds, max(seconds - _AHEAD_SECONDS, seconds / 2))


Fetch = Callable[[], Fetched]  # keeps what its library remembers; a new one begins anew


class Keeper:
    """The credential of one provider. ``make_fetch`` may raise whatever its library does, and so may what it returns."""

    def __init__(self, provider: str, make_fetch: Callable[[], Fetch], key: str) -> None:
        self._provider, self._make_fetch, self._key = provider, make_fetch, key
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._fetch: Fetch | None = None
        self._proof: Proof | None = None
        self._good_until = self._forced_at = float("-inf")  # by the monotonic clock, as the next
        self._asked_at = 0.0
        self._failure = ""
        self._failures = 0  # in a row
        self._is_fetching = self._is_wanted = False

    def begin(self) -> None:
        """Have it fetched before a request needs it."""
        with self._changed:
            self._asked_at = time.monotonic()
            self._begin()

    def proof(self) -> Proof:
        """Return what to show. Waits, unless the last attempt failed or lasted too long. Raises CredentialUnavailable."""
        self._asked_at = time.monotonic()
        if self._thread is None or not self._thread.is_alive() or self._asked_at >= self._good_until:
            with self._changed:
                if not (self._begin() or self._is_good or self._is_busy or self._failure):
                    self._wake()  # a process that was busy, or slept, may be late
                if not self._changed.wait_for(lambda: self._is_good or self._failure or not self._is_busy, WAIT_SECONDS):
                    self._failure = f"no credential arrived within {WAIT_SECONDS} seconds"
        if self._proof is None or not self._is_good:
            raise CredentialUnavailable(self._failure)
        return self._proof

    def renew(self, refused: Proof) -> bool:
        """Return whether there is another credential than the refused one, which is fetched at once; not again and again.

        All whose requests were refused wait for it.
        """
        with self._changed:
            now = time.monotonic()
            if self._proof == refused and now >= self._forced_at + _FORCED_SECONDS:
                self._forced_at, self._fetch = now, None
                if not self._begin():
                    self._wake()
            self._changed.wait_for(lambda: self._proof != refused or not self._is_busy, WAIT_SECONDS)
            return self._is_good and self._proof != refused

    def end(self) -> None:
        """Renew the credential no longer, unless it is asked for again."""
        with self._changed:
            self._asked_at = float("-inf")
            self._wake()

    @property
    def _is_good(self) -> bool:
        return time.monotonic() < self._good_until

    @property
    def _is_busy(self) -> bool:
        return self._is_fetching or self._is_wanted

    def _begin(self) -> bool:
        """Start the thread unless it runs. Return whether it was started. In a process that was forked it does not run."""
        if self._thread and self._thread.is_alive():
            return False
        self._is_fetching, self._is_wanted, self._failure = True, False, ""
        self._thread = threading.Thread(target=self._run, name=f"credential of {self._provider}", daemon=True)
        self._thread.start()
        return True

    def _wake(self) -> None:
        self._is_wanted = True
        self._changed.notify_all()

    def _run(self) -> None:
        while time.monotonic() < self._asked_at + _UNUSED_SECONDS:
            fetched = self._fetch_one()
            with self._changed:
                pause_seconds = self._note(fetched) if isinstance(fetched, Exception) else self._take(fetched)
                self._is_fetching = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._is_wanted, max(pause_seconds, _PAUSE_SECONDS_MIN))
                self._is_fetching, self._is_wanted = True, False
        self._is_fetching = False

    def _fetch_one(self) -> Fetched | Exception:
        try:
            self._fetch = fetch = self._fetch or self._make_fetch()
            return fetch()
        except Exception as error:  # the three libraries have no common class of errors
            return error

    def _take(self, fetched: Fetched) -> float:
        """Show it from now on. Return the seconds until the next one is fetched, as does ``_note``."""
        if self._failures:
            logger.warning("provider %s has a credential again", self._provider, extra={"provider": self._provider})
        self._failure, self._failures = "", 0
        self._proof, self._good_until = fetched.proof, time.monotonic() + fetched.good_seconds
        return fetched.renewed_after_seconds

    def _note(self, error: Exception) -> float:
        said = error.args[0] if error.args and isinstance(error.args[0], str) else error  # Google's have the reply, too
        words = " ".join((f"{said}" if isinstance(error, CredentialUnavailable) else f"{type(error).__name__}: {said}").split())
        self._fetch, self._failure = None, masking.mask_keys(words, self._key)[:_REASON_CHARACTERS_MAX]
        if not self._failures:
            left_seconds = max(0, self._good_until - time.monotonic())
            message = "the credential of provider %s cannot be fetched (%s); the last one is good for %.0f more seconds"
            logger.warning(message, self._provider, self._failure, left_seconds, extra={"provider": self._provider})
        self._failures += 1
        return min(_PAUSE_SECONDS_MIN * 2.0 ** (self._failures - 1), _PAUSE_SECONDS_MAX)


keepers: dict[str, tuple[tuple[Mapping[str, str], str], Keeper]] = {}  # by provider, with what each was made for


def keep(provider: str, auth: Mapping[str, str], key: str) -> Keeper:
    """Return the keeper of a provider's credential: another one for another ``auth`` or ``key``; the former one ends."""
    wanted, found = (auth, key), keepers.get(provider)
    if found is None or found[0] != wanted:
        if found:
            found[1].end()
        found = keepers[provider] = wanted, Keeper(provider, partial(_make_fetch, auth, key), key)
    return found[1]


def _make_fetch(auth: Mapping[str, str], key: str) -> Fetch:
    kind = auth["type"]
    try:
        make_fetch: Callable[[Mapping[str, str], str], Fetch] = import_module(f"completions.providers.access.{kind}").make_fetch
    except ImportError as error:
        raise CredentialUnavailable(missing_extra(kind)) from error
    return make_fetch(auth, key)


def missing_extra(kind: str) -> str:
    return f"auth of the type {kind} needs {SOURCES[kind].replace('.', '-')}: pip install 'model-gateway[{kind}]'"
