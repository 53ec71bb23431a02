"""Limits on attempts to sign in, and on mails: a burst, and then one each few seconds (GCRA, see ``keys.limits.gcra``).

An attempt is counted before its password is hashed, and given back if it succeeds. Successes have a limit of their own, because
each costs a hash; strangers cannot use it up. The state of a limit is one row, which all processes share.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256

from django.conf import settings
from django.db.models import QuerySet

from billing.email_addresses import canonical
from billing.models import SignInLimit
from gateway_project import cache, errors
from gateway_project.db import cell, pool


@dataclass(frozen=True, slots=True)
class Rate:
    """``burst`` attempts at once, then one each ``interval_seconds``."""

    burst: int
    interval_seconds: float

    @classmethod
    def of(cls, count: int, seconds: int) -> "Rate":
        """Return a rate of at most ``count`` in any time of ``seconds``: half of it at once."""
        burst = count // 2
        return cls(burst, seconds / (count - burst))


RATES = {
    "address": Rate(burst=30, interval_seconds=6),  # colleagues may share it
    "user": Rate(burst=10, interval_seconds=60),  # 70 in the worst hour
    "success": Rate(burst=6, interval_seconds=30),  # of one user: less than the share of a core that passwords have
    "all forms": Rate(burst=300, interval_seconds=1),  # at most 4,000 in the hour after which they are deleted
    "security": Rate(burst=50, interval_seconds=900),  # notices to one user, who was told often enough when they are used up
}


@dataclass(frozen=True, slots=True)
class Limit:
    """The rate of one subject, such as ``address 192.0.2.1``."""

    subject: str
    rate: Rate
    email: str = ""  # of a limit that is looked for by it, because the rest of the subject is known to a browser only

    @property
    def digest(self) -> str:
        """The primary key. The table need not tell who tried to sign in, nor store texts of any length."""
        return _digest(self.subject)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _limit_of(words: str, rate: str) -> Callable[[str | int], Limit]:
    """Return what makes the limit of one client's network, of one email address or of one user's id."""
    return lambda subject: Limit(f"{words} {subject}", RATES[rate])


address_limit = _limit_of("address", "address")
mail_request_limit = _limit_of("mails asked for by", "address")
passkey_limit = _limit_of("passkey", "address")  # of beginning to sign in, which stores a session
identity_limit = _limit_of("identity", "address")  # of the same
user_limit = _limit_of("user", "user")  # who need not exist
success_limit = _limit_of("successes", "success")  # of right passwords, on whatever device
security_limit = _limit_of("notices of security to", "security")  # only the user of the address can cause them
second_factor_limit = _limit_of("second factor", "user")  # of codes, after the right password


def kept_form_limits(network: str) -> list[Limit]:
    """Return the limits on kept forms, of one address and of all addresses. Each such form stores a session."""
    return [Limit(f"kept forms of {network}", RATES["address"]), Limit("kept forms", RATES["all forms"])]


def mailbox_limit(email: str, cause: str) -> Limit:
    """Return the limit of mails to one mailbox, under all its spellings at large providers."""
    return Limit(f"mails to {mailbox(email)}, {cause}", Rate.of(settings.MAILBOX_MAILS_PER_DAY, 86_400))


def mailbox(email: str) -> str:
    """Return the address without what many providers ignore: what follows a plus, dots before the @, and upper case."""
    name, _, domain = canonical(email).rpartition("@")
    return f"{name.partition('+')[0].replace('.', '')}@{domain}"


def mails_limit(cause: str) -> Limit:
    return Limit(f"mails, {cause}", Rate.of(settings.MAILS_PER_HOUR, 3_600))


def device_limit(device: str, email: str) -> Limit:
    """Return the limit of a user on a known device, which only that user can use up."""
    return Limit(f"device {device} {email}", RATES["user"], email)


# A limit that is used up stays so until its next attempt is due. A flood that is refused costs no further query.
_next_attempts: cache.TTLCache[str, float] = cache.TTLCache(seconds=60, entries_max=10_000)


def count_attempt(limits: Iterable[Limit]) -> None:
    """Count an attempt against each limit in turn. Raises RateLimitExceeded at the first that is used up."""
    for limit in limits:
        require_not_known_refused([limit])
        digests = {"digest": limit.digest, "email_digest": _digest(limit.email) if limit.email else ""}
        rate = {"burst": limit.rate.burst, "interval_seconds": limit.rate.interval_seconds}
        [(wait,)] = cell.execute(_COUNT, {**digests, **rate})
        if wait > timedelta(0):
            _next_attempts.put(limit.digest, time.monotonic() + wait.total_seconds())
            raise _refusal(wait)


def require_not_known_refused(limits: Iterable[Limit]) -> None:
    """Raise RateLimitExceeded if this process knows that one of the limits is used up. Needs no query."""
    for limit in limits:
        next_attempt = _next_attempts.get(limit.digest)
        if next_attempt is not None and (wait_seconds := next_attempt - time.monotonic()) > 0:
            raise _refusal(timedelta(seconds=wait_seconds))


def _refusal(wait: timedelta) -> errors.RateLimitExceeded:
    headers = errors.retry_after(wait)
    seconds = headers["Retry-After"]
    message = f"Too many sign-in attempts. Try again in {seconds} second{'s' if seconds != '1' else ''}."
    return errors.RateLimitExceeded(message, headers=headers)


def give_back_attempt(limits: Iterable[Limit]) -> None:
    """Take back what ``count_attempt`` counted. Without limits it needs no database."""
    sql = "UPDATE billing_signinlimit SET full_at = full_at - make_interval(secs => %s) WHERE digest = %s"
    for limit in limits:
        _next_attempts.discard(limit.digest)
        cell.execute(sql, [limit.rate.interval_seconds, limit.digest])


def find_known_devices(email: str) -> QuerySet[SignInLimit]:
    return SignInLimit.objects.filter(email_digest=_digest(email))


def reset(rows: Iterable[SignInLimit]) -> None:
    """Make the whole burst of limits available again. Other processes know it within a minute."""
    digests = [row.digest for row in rows]
    SignInLimit.objects.filter(pk__in=digests).delete()
    for digest in digests:
        _next_attempts.discard(digest)


def forget_unused() -> int:
    """Delete the rows of limits whose whole burst is available again. Return how many."""
    deleted, _ = SignInLimit.objects.filter(full_at__lt=pool.database_time()).delete()
    return deleted


# ``full_at`` is when the whole burst is available again. An attempt moves it by one interval, but never beyond a whole burst
# from now. The statement returns how long the next attempt must wait: 0 if this one was counted. At least a second if not,
# because the last subquery reads the row as it was before concurrent attempts. A state that is further ahead than a burst was
# written before the clock was set back, and counts as ``keys.limits.gcra`` says. The statement does not wait for the disk,
# which settlements need: a crash may forget the attempts of its last moment.
_STATE = """(
            CASE WHEN state.full_at > statement_timestamp() + {interval} * %(burst)s + interval '1 second'
            THEN statement_timestamp() ELSE greatest(state.full_at, statement_timestamp()) END
        )"""
_COUNT = """
    WITH counted AS (
        INSERT INTO billing_signinlimit AS state (digest, email_digest, full_at)
        VALUES (%(digest)s, %(email_digest)s, statement_timestamp() + {interval})
        ON CONFLICT (digest) DO UPDATE SET full_at = {state} + {interval}
        WHERE {state} <= statement_timestamp() + {interval} * (%(burst)s - 1)
        RETURNING interval '0' AS wait
    )
    SELECT coalesce(
        (SELECT wait FROM counted),
        (SELECT greatest({state} - {interval} * (%(burst)s - 1) - statement_timestamp(), interval '1 second')
            FROM billing_signinlimit AS state WHERE digest = %(digest)s),
        {interval}
    )
    FROM set_config('synchronous_commit', 'off', true)
    """.replace("{state}", _STATE).replace("{interval}", "make_interval(secs => %(interval_seconds)s)")
