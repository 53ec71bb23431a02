"""Re-encrypts what is stored with the first of GATEWAY_ENCRYPTION_KEYS. Safe while the gateway runs, and safe to repeat."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from completions.charging.recovery import outbox
from completions.management import reencryption
from completions.management.reencryption import Outcome
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Encrypt stored provider keys and replies with the first of GATEWAY_ENCRYPTION_KEYS. Exits with 1 if some are left."

    def handle(self, *args: Any, **options: Any) -> None:
        outcomes = reencryption.reencrypt_all(progress=self.write_progress)
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
