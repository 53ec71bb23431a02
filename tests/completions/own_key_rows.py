"""Own keys of accounts at the scripted provider, and the headers that show them and ours."""

from typing import Any

from billing.models import Account
from completions.models import OwnKey
from tests.upstream import KEY

OWN = "own-secret-0123456789-of-alice"
OURS, THEIRS = f"Bearer {KEY}", f"Bearer {OWN}"


def add_own_key(account: Account, secret: str = OWN, provider: str = "scripted", **fields: Any) -> OwnKey:
    key = OwnKey(account=account, provider_id=provider, **fields)
    key.seal(secret)
    key.save()
    Account.objects.filter(pk=account.pk).update(has_own_keys=True)
    return key
