"""Re-encrypts what is stored with the first of ENCRYPTION_KEYS: providers' keys, second factors, webhooks, replies, responses.

Each row is a transaction of its own, and a row that was written meanwhile is left as it is. So this may run while the gateway
serves, may be stopped, and may be repeated: it then continues with what is left.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any
from uuid import UUID

from allauth.mfa.models import Authenticator
from django.db import transaction
from django.db.models import QuerySet

from billing.models import WebhookEndpoint
from completions.charging import stored_responses
from completions.models import IdempotentRequest, Provider, StoredResponse
from gateway_project import secretbox
from gateway_project.db import everywhere
from keys.models import ManagementReply

_BATCH_ROWS = 20  # replies in memory at a time, of a megabyte or more each
_PROGRESS_ROWS = 1_000


class Outcome(Enum):
    """What became of one row."""

    REENCRYPTED = "encrypted with the first key"
    CURRENT = "encrypted with the first key before"
    UNREADABLE = "encrypted with none of the keys"
    CHANGED = "written meanwhile, with the first key unless a process has not yet been restarted"


def reencrypt_all(progress: Callable[[str], None] = lambda line: None) -> Counter[Outcome]:
    """Re-encrypt every provider's key, second factor, webhook, stored reply and response, and count the outcomes."""
    outcomes: Counter[Outcome] = Counter()
    for provider in Provider.objects.exclude(sealed_api_key="").order_by("pk"):
        outcome = _reencrypt_key(provider)
        outcomes[outcome] += 1
        if outcome is Outcome.UNREADABLE:
            progress(f"the key of provider {provider.pk} cannot be decrypted: enter it again")
    factors = Authenticator.objects.exclude(type=Authenticator.Type.WEBAUTHN).order_by("pk")
    for factor_id in factors.values_list("pk", flat=True):
        outcome = _reencrypt_second_factor(factor_id)
        outcomes[outcome] += 1
        if outcome is Outcome.UNREADABLE:
            progress(f"the second factor {factor_id} cannot be decrypted: remove it, so that its user sets up another")
    everywhere.run(lambda: _reencrypt_owned(outcomes, progress))
    return outcomes


def _reencrypt_owned(outcomes: Counter[Outcome], progress: Callable[[str], None]) -> None:
    """Re-encrypt what accounts of the current cell have."""
    for endpoint_id in WebhookEndpoint.objects.order_by("pk").values_list("pk", flat=True):
        outcome = _reencrypt_webhook(endpoint_id)
        outcomes[outcome] += 1
        if outcome is Outcome.UNREADABLE:
            progress(f"a secret of the webhook {endpoint_id} cannot be decrypted: its owner must make a new one")
    for management_reply in ManagementReply.objects.order_by("pk"):
        outcomes[_reencrypt_management_reply(management_reply)] += 1
    replies = IdempotentRequest.objects.exclude(sealed_reply=None)
    responses = StoredResponse.objects.exclude(sealed_reply=None)
    for stored, reencrypt in ((replies, _reencrypt_reply), (responses, _reencrypt_response)):
        for each in _in_batches(stored):
            outcomes[reencrypt(each)] += 1
            if outcomes.total() % _PROGRESS_ROWS == 0:
                progress(f"{outcomes.total()} rows")


def _reencrypt_texts(texts: Mapping[str, str], write: Callable[[dict[str, str]], int]) -> Outcome:
    """Encrypt the texts of a row anew. ``write`` gets those that change, by column, and returns how many rows it wrote."""
    try:
        sealed = {name: secretbox.reencrypt(text) for name, text in texts.items()}
    except secretbox.Unreadable:
        return Outcome.UNREADABLE
    changed = {name: text for name, text in sealed.items() if text is not None}
    if not changed:
        return Outcome.CURRENT
    return Outcome.REENCRYPTED if write(changed) else Outcome.CHANGED


def _reencrypt_key(provider: Provider) -> Outcome:
    unchanged = Provider.objects.filter(pk=provider.pk, sealed_api_key=provider.sealed_api_key)

    def write(changed: dict[str, str]) -> int:
        was_refused = provider.is_key_refused
        provider.sealed_api_key = changed["sealed_api_key"]
        # The same key in another text: what the provider said about it still holds.
        return unchanged.update(**changed, **({"refused_key": provider.key_fingerprint} if was_refused else {}))

    return _reencrypt_texts({"sealed_api_key": provider.sealed_api_key}, write)


def _reencrypt_second_factor(factor_id: int) -> Outcome:
    with transaction.atomic():  # signing in with a recovery code locks the row, too
        rows = Authenticator.objects.filter(pk=factor_id)
        factor = rows.select_for_update().first()
        if factor is None:
            return Outcome.CHANGED
        data, name = factor.data, "secret" if factor.type == Authenticator.Type.TOTP else "seed"
        return _reencrypt_texts({name: data[name]}, lambda changed: rows.update(data={**data, **changed}))


def _reencrypt_webhook(endpoint_id: UUID) -> Outcome:
    with transaction.atomic():  # a rotation of the secret locks the row, too
        rows = WebhookEndpoint.objects.filter(pk=endpoint_id)
        endpoint = rows.select_for_update().first()
        if endpoint is None:
            return Outcome.CHANGED
        texts = {"sealed_secret": endpoint.sealed_secret, "sealed_previous_secret": endpoint.sealed_previous_secret}
        return _reencrypt_texts({name: text for name, text in texts.items() if text}, lambda changed: rows.update(**changed))


def _reencrypt_management_reply(reply: ManagementReply) -> Outcome:
    rows = ManagementReply.objects.filter(pk=reply.pk)  # written once; gone if it was too old meanwhile
    return _reencrypt_texts({"sealed_body": reply.sealed_body}, lambda changed: rows.update(**changed))


def _in_batches(stored: QuerySet[Any]) -> Iterator[Any]:
    rows = list(stored.order_by("pk")[:_BATCH_ROWS])
    while rows:
        yield from rows
        rows = list(stored.filter(pk__gt=rows[-1].pk).order_by("pk")[:_BATCH_ROWS])


def _reencrypt_reply(reply: IdempotentRequest) -> Outcome:
    # A completion's reply is written once: if the key was used again since, the row has another completion.
    unchanged = IdempotentRequest.objects.filter(pk=reply.pk, completion_id=reply.completion_id)
    return _reencrypt_texts({"sealed_reply": reply.sealed_reply or ""}, lambda changed: unchanged.update(**changed))


def _reencrypt_response(response: StoredResponse) -> Outcome:
    # Its texts are written together: again when a response that runs in the background ends.
    unchanged = StoredResponse.objects.filter(pk=response.pk, sealed_reply=response.sealed_reply)
    texts = {name: getattr(response, name) for name in stored_responses.TEXTS if getattr(response, name) is not None}
    return _reencrypt_texts(texts, lambda changed: unchanged.update(**changed))
