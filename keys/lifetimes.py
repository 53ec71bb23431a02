"""For how long keys work at most after their secrets were made: a maximum that an owner sets for all keys of the account."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import DateTimeField, ExpressionWrapper, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce, Greatest, Now
from django.template.defaultfilters import pluralize

from billing.models import Account
from gateway_project.text import timestamps
from keys.models import ApiKey, FormerSecret

DAYS_MAX = 3_650
NOTICE = timedelta(days=7)  # an existing key to which a maximum is applied works for at least this long


class ExpiresTooLate(Exception):
    """The key would outlive the maximum of its account."""

    def __init__(self, days_max: int, latest: datetime) -> None:
        self.latest = latest
        until = timestamps.in_words(latest)
        super().__init__(f"The account’s keys live {in_words(days_max)} at most: until {until} at the latest.")


def in_words(days: int) -> str:
    return f"{days} day{pluralize(days)}"


def require_expiry(account: Account, made_at: datetime, expires_at: datetime | None) -> None:
    """Raise ExpiresTooLate if a key whose secret was made then may not expire at this time. The account is locked."""
    latest = latest_expiry(account, made_at)
    if latest is not None and (expires_at is None or expires_at > latest):
        raise ExpiresTooLate(account.key_lifetime_days_max or 0, latest)


def latest_expiry(account: Account, made_at: datetime) -> datetime | None:
    """Return when a key expires at the latest, if its secret was made then. None: it need not expire."""
    days_max = account.key_lifetime_days_max
    return None if days_max is None else made_at + timedelta(days=days_max)


def secret_made_at(key: ApiKey) -> datetime:
    """Return when the key's present secret was made."""
    rotated_at = key.former_secrets.order_by("-rotated_at").values_list("rotated_at", flat=True).first()
    return rotated_at or key.created_at


def find_outliving(account: Account) -> QuerySet[Any]:
    """Return the account's keys that work for longer than its maximum, each with the ``new_expiry`` that this gives it."""
    days_max = account.key_lifetime_days_max
    rotated_at = FormerSecret.objects.filter(key=OuterRef("pk")).order_by("-rotated_at").values("rotated_at")[:1]
    made_at = Coalesce(Subquery(rotated_at), F("created_at"))
    latest = ExpressionWrapper(made_at + timedelta(days=days_max or 0), DateTimeField())
    keys = account.keys.filter(revoked_at=None).annotate(
        new_expiry=Greatest(latest, Now() + NOTICE, output_field=DateTimeField())
    )
    return keys.filter(Q(expires_at=None) | Q(expires_at__gt=F("new_expiry"))) if days_max else keys.none()
