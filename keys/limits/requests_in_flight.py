"""Requests in flight of a key and of its account: the maximum of each, refuse one more, report the state in headers.

A request is in flight while its hold is open, in whichever process: from admission to settlement, also without its caller.
"""

from typing import Any

import msgspec
from django.conf import settings
from django.db.models import DateField, Func, OuterRef, Subquery, Sum
from django.db.models.functions import Coalesce

from billing.models import Account
from gateway_project import errors
from keys.models import ApiKey, SpendingDay

_YESTERDAY: Any = Func(template="((statement_timestamp() AT TIME ZONE 'UTC')::date - 1)", output_field=DateField())
_OF_KEY = SpendingDay.objects.filter(key=OuterRef("pk"), day__gte=_YESTERDAY).order_by().values("key")
# The open holds of a key, for queries without locks: ``ApiKey.objects.annotate(running=requests_in_flight.OPEN_HOLDS)``.
OPEN_HOLDS: Any = Coalesce(Subquery(_OF_KEY.annotate(open=Sum("open_holds")).values("open")), 0)
_TRY_AGAIN = "Try again when one has ended."


class RequestsInFlight(msgspec.Struct, frozen=True):
    """How many requests of a key and of its account run, and how many may."""

    of_key: int
    key_max: int
    of_account: int
    account_max: int

    def require_room(self) -> None:
        """Raises TooManyInFlight."""
        if self.of_key >= self.key_max:
            raise refusal("key", self.key_max)
        if self.of_account >= self.account_max:
            raise refusal("account", self.account_max)

    def with_one_more(self) -> "RequestsInFlight":
        return RequestsInFlight(self.of_key + 1, self.key_max, self.of_account + 1, self.account_max)

    def headers(self) -> dict[str, str]:
        """Return x-ratelimit-*-concurrent headers. None is for a reset: the end of a request is not known."""
        remaining = min(self.key_max - self.of_key, self.account_max - self.of_account)
        return {
            "x-ratelimit-limit-concurrent": str(min(self.key_max, self.account_max)),
            "x-ratelimit-remaining-concurrent": str(max(remaining, 0)),
        }


def default_state() -> RequestsInFlight:
    """Return the deployment's maxima, for a key that was not read, and nothing in flight."""
    return RequestsInFlight(0, settings.KEY_REQUESTS_IN_FLIGHT, 0, settings.ACCOUNT_REQUESTS_IN_FLIGHT)


def read_state(key: ApiKey, account: Account) -> RequestsInFlight | None:
    """Return the state by the rows; None when the key's open holds were not read with it."""
    if key.open_holds is None:
        return None
    of_key_max = key.requests_in_flight_max or settings.KEY_REQUESTS_IN_FLIGHT
    of_account_max = account.requests_in_flight_max or settings.ACCOUNT_REQUESTS_IN_FLIGHT
    return RequestsInFlight(key.open_holds, of_key_max, account.open_holds, of_account_max)


def require_room(key: ApiKey, account: Account) -> RequestsInFlight:
    """Return the state, in which one more request may run. Raises TooManyInFlight. The open holds must have been read."""
    state = read_state(key, account)
    assert state is not None
    state.require_room()
    return state


def key_max(key: ApiKey) -> int:
    return key.requests_in_flight_max or int(settings.KEY_REQUESTS_IN_FLIGHT)


def account_max(account: Account) -> int:
    return account.requests_in_flight_max or int(settings.ACCOUNT_REQUESTS_IN_FLIGHT)


def describe_maximum(key: ApiKey) -> str:
    """Return the key's maximum in words: "100 requests at a time"."""
    return f"{_requests(key_max(key))} at a time"


def require_room_for_model(model_id: str, running: int, maximum: int | None) -> None:
    """Raises TooManyInFlightOfModel when the key has ``maximum`` requests for the model in flight."""
    if maximum is not None and running >= maximum:
        raise errors.TooManyInFlightOfModel(
            f"The key has {_requests(maximum)} for {model_id} in flight, which is the maximum of a key. {_TRY_AGAIN}"
        )


def refusal(whose: str, maximum: int) -> errors.TooManyInFlight:
    """Return the refusal of one request more than the key or the account (``whose``) may have in flight."""
    return errors.TooManyInFlight(f"The {whose} has {_requests(maximum)} in flight, which is its maximum. {_TRY_AGAIN}")


def _requests(number: int) -> str:
    return f"{number:,} request{'' if number == 1 else 's'}"
