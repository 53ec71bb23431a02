"""Re-encrypts with the first of GATEWAY_ENCRYPTION_KEYS what is stored sealed: providers' keys, ours and those of accounts,
second factors, webhooks, replies and responses.

Each row is a transaction of its own, and a row that was written meanwhile is left as it is. So this may run while the gateway
serves, may be stopped, and may be repeated: it then continues with what is left.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Any

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.core.management.base import CommandError
from django.db.models import QuerySet

from billing.models import RootKey, WebhookEndpoint
from completions.charging import stored_responses
from completions.charging.recovery import outbox
from completions.models import IdempotentRequest, OwnKey, Provider, StoredResponse
from gateway_project import secretbox
from gateway_project.db import everywhere
from gateway_project.operator_command import OperatorCommand
from keys.models import ManagementReply

_BATCH_ROWS = 20  # replies in memory at a time, of a megabyte or more each
_PROGRESS_ROWS = 1_000


class Outcome(Enum):
    """The result for one row."""

    REENCRYPTED = "encrypted with the first key"
    CURRENT = "encrypted with the first key before"
    UNREADABLE = "encrypted with none of the keys"
    CHANGED = "written meanwhile, with the first key unless a process has not yet been restarted"


class Command(OperatorCommand):
    help = "Encrypt stored provider keys and replies with the first of GATEWAY_ENCRYPTION_KEYS. Exits with 1 if some are left."

    def handle(self, *args: Any, **options: Any) -> None:
        outcomes = reencrypt_all(progress=self.write_progress)
        facts = {
            "reencrypted": outcomes[Outcome.REENCRYPTED],
            "current": outcomes[Outcome.CURRENT],
            "unreadable": outcomes[Outcome.UNREADABLE],
            "changedMeanwhile": outcomes[Outcome.CHANGED],
            "waitingInOutbox": len(outbox.waiting_files()),
            "deadLetters": len(outbox.dead_letters()),
        }
        sentence = "{reencrypted} encrypted with the first key, {current} were so before.".format(**facts)
        self.write_result(options, facts, sentence)
        if left := facts["waitingInOutbox"] + facts["deadLetters"]:
            where = f"this host's {settings.OUTBOX_DIR}, perhaps with replies"
            raise CommandError(f"{left} settlements are in {where}: drain it and repeat this, on every host.")
        if facts["changedMeanwhile"]:
            raise CommandError("{changedMeanwhile} were written meanwhile: repeat this.".format(**facts))
        if facts["unreadable"]:
            raise CommandError("{unreadable} cannot be decrypted with any of GATEWAY_ENCRYPTION_KEYS.".format(**facts))


def reencrypt_all(progress: Callable[[str], None]) -> Counter[Outcome]:
    """Re-encrypt every provider's key, second factor, webhook, stored reply and response, and count the outcomes."""
    outcomes: Counter[Outcome] = Counter()

    def reencrypt(rows: QuerySet[Any], reencrypt_row: Callable[[Any], Outcome], advice: str = "") -> None:
        for row in _in_batches(rows):
            outcome = reencrypt_row(row)
            outcomes[outcome] += 1
            if advice and outcome is Outcome.UNREADABLE:
                progress(advice.format(row.pk))
            if outcomes.total() % _PROGRESS_ROWS == 0:
                progress(f"{outcomes.total()} rows")

    def reencrypt_owned() -> None:
        """Re-encrypt what accounts of the current cell have."""
        advice = "a secret of the webhook {} cannot be decrypted: its owner must make a new one"
        secrets = "sealed_secret", "sealed_previous_secret"
        reencrypt(WebhookEndpoint.objects.all(), partial(_reencrypt_columns, secrets), advice)
        advice = "the own key {} of an account cannot be decrypted: its owner must enter it again"
        reencrypt(OwnKey.objects.all(), partial(_reencrypt_columns, ["sealed_secret"]), advice)
        reencrypt(ManagementReply.objects.all(), partial(_reencrypt_columns, ["sealed_body"]))
        reencrypt(IdempotentRequest.objects.exclude(sealed_reply=None), partial(_reencrypt_columns, ["sealed_reply"]))
        reencrypt(StoredResponse.objects.exclude(sealed_reply=None), partial(_reencrypt_columns, stored_responses.TEXTS))

    advice = "the key of provider {} cannot be decrypted: enter it again"
    reencrypt(Provider.objects.exclude(sealed_api_key=""), _reencrypt_key, advice)
    advice = "the second factor {} cannot be decrypted: remove it, so that its user sets up another"
    reencrypt(Authenticator.objects.exclude(type=Authenticator.Type.WEBAUTHN), _reencrypt_second_factor, advice)
    reencrypt(RootKey.objects.all(), partial(_reencrypt_columns, ["sealed_secret"]), "make another root key instead of {}")
    everywhere.run(reencrypt_owned)
    return outcomes


def _in_batches(stored: QuerySet[Any]) -> Iterator[Any]:
    rows = list(stored.order_by("pk")[:_BATCH_ROWS])
    while rows:
        yield from rows
        rows = list(stored.filter(pk__gt=rows[-1].pk).order_by("pk")[:_BATCH_ROWS])


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


def _reencrypt_columns(columns: Iterable[str], row: Any) -> Outcome:
    """Encrypt the columns that have a text, while all of them are what they were."""
    texts = {name: text for name in columns if (text := getattr(row, name))}
    unchanged = type(row)._default_manager.filter(pk=row.pk, **texts)
    return _reencrypt_texts(texts, lambda changed: unchanged.update(**changed))


def _reencrypt_key(provider: Provider) -> Outcome:
    unchanged = Provider.objects.filter(pk=provider.pk, sealed_api_key=provider.sealed_api_key)

    def write(changed: dict[str, str]) -> int:
        was_refused = provider.is_key_refused
        provider.sealed_api_key = changed["sealed_api_key"]
        # The same key in another text: what the provider said about it still holds.
        return unchanged.update(**changed, **({"refused_key": provider.key_fingerprint} if was_refused else {}))

    return _reencrypt_texts({"sealed_api_key": provider.sealed_api_key}, write)


def _reencrypt_second_factor(factor: Authenticator) -> Outcome:
    data, name = factor.data, "secret" if factor.type == Authenticator.Type.TOTP else "seed"
    unchanged = Authenticator.objects.filter(pk=factor.pk, data=data)
    return _reencrypt_texts({name: data[name]}, lambda changed: unchanged.update(data={**data, **changed}))
