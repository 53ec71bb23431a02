"""Adds, changes and removes an account's own provider keys under its lock. Admission has the same lock, and sees it at once."""

from collections.abc import Iterator
from typing import Any

from django.db import transaction
from django.http import Http404, HttpRequest

from billing import locks
from billing.models import Account
from completions.models import OwnKey, Provider
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from gateway_project.text import timestamps


def begin_check(request: HttpRequest, account: Account, provider: Provider, secret: str) -> None:
    """Record that a provider is asked about a key, which bounds how often."""
    with transaction.atomic():
        summary = f"Asked {provider} whether it accepts a key that ends with {secret[-OwnKey.HINT_CHARACTERS :]}."
        log.record(request, Activity.Act.OWN_KEY_CHECKED, account, summary)


def save(request: HttpRequest, account: Account, provider: Provider, secret: str, chosen: dict[str, Any]) -> None:
    """Add the key, replace its secret, or without one change what is ``chosen``: columns by name. Raises Http404."""
    with transaction.atomic():
        locks.lock_account(account.pk)
        found = OwnKey.objects.filter(account=account, provider=provider).first()
        if found is None and not secret:
            raise Http404("The key was removed meanwhile.")
        key = found or OwnKey(account=account)
        key.provider = provider  # with the address that was asked about the key
        before = _shown(key) if found else None
        for name, value in chosen.items():
            setattr(key, name, value)
        if secret:
            key.seal(secret)
        key.save()
        Account.objects.filter(pk=account.pk).update(has_own_keys=True)
        act, done = (Activity.Act.OWN_KEY_CHANGED, "Changed") if found else (Activity.Act.OWN_KEY_ADDED, "Added")
        summary = f"{done} the account's own key of {provider}, which ends with {key.hint}."
        log.record(request, act, key, summary, before=before, after=_shown(key))


def remove(request: HttpRequest, key: OwnKey) -> None:
    with transaction.atomic():
        account = locks.lock_account(key.account_id)
        summary = f"Removed the account's own key of {key.provider_id}, which ended with {key.hint}."
        log.record(request, Activity.Act.OWN_KEY_REMOVED, key, summary, before=_shown(key))
        OwnKey.objects.filter(pk=key.pk).delete()
        Account.objects.filter(pk=account.pk).update(has_own_keys=account.own_keys.exists())


def _shown(key: OwnKey) -> dict[str, Any]:
    chosen = {"fallsBack": key.falls_back, "countsPrice": key.counts_price, "promised": key.promised}
    return {"endsWith": key.hint, "models": key.model_ids, **chosen}


def read_all(account: Account) -> Iterator[dict[str, Any]]:
    """Yield the keys for an export, without their secrets."""
    for key in account.own_keys.order_by("pk"):
        yield {"provider": key.provider_id, "addedAt": timestamps.iso_millis(key.added_at), **_shown(key)}
