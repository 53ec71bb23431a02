"""Prepare the demo account of ``make run``, and write quickstart.json with its address, key and passwords.

Safe to run again: the credit is given once, and the key and passwords in the file are kept as long as they work.
"""

import json
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.hashers import PBKDF2PasswordHasher, check_password
from django.core.management.base import CommandParser
from django.db import transaction

from billing.accounts import lifecycle as account_lifecycle
from billing.ledger import writer
from billing.models import Account, LedgerEntry, Membership, User
from gateway_project.db import everywhere
from gateway_project.operator_command import OperatorCommand
from keys import lifecycle, secret
from keys.models import ApiKey

ADMIN_EMAIL = "admin@example.com"
OWNER_EMAIL = "owner@example.com"
MODEL = "demo/echo"
CREDIT_CENTS = 1_000
_REFERENCE = "quickstart"


class Command(OperatorCommand):
    help = "Make the demo's account, credit, key, owner and superuser if missing, and write $GATEWAY_VAR/quickstart.json."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--base-url", metavar="URL", required=True, help="The address of the pages.")
        parser.add_argument("--api-url", metavar="URL", required=True, help="The address of /v1.")

    def handle(self, *args: Any, **options: Any) -> None:
        path = settings.GATEWAY_VAR / "quickstart.json"
        facts = _facts(_read(path), base_url=options["base_url"], api_url=options["api_url"])
        _write(path, facts)
        self.write_result(options, facts, f"The demo is ready. How to use it is in {path}.")


def _facts(previous: dict[str, Any], *, base_url: str, api_url: str) -> dict[str, Any]:
    """Return the content of the file, with the parts of the previous one that still work."""
    admin, admin_password = _person(ADMIN_EMAIL, previous.get("admin"), is_staff=True, is_superuser=True)
    owner, owner_password = _person(OWNER_EMAIL, previous.get("owner"))
    account = _account()
    if not Membership.objects.filter(account=account, user=owner).exists():
        account_lifecycle.add_member(account, owner)
    return {
        "base_url": base_url,
        "api_url": api_url,
        "api_key": _api_key(account, previous.get("api_key"), owner),
        "model": MODEL,
        "admin": {"email": admin.email, "password": admin_password},
        "owner": {"email": owner.email, "password": owner_password},
    }


def _person(email: str, previous: Any, **flags: bool) -> tuple[User, str]:
    """Return the user and the password: that in the file, or a new one."""
    password = previous.get("password") if isinstance(previous, dict) else None
    user = User.objects.filter(email=email).first() or User(email=email)
    if not password:
        # 1,000 iterations suffice: 128 random bits are not guessed.
        password, hasher = secrets.token_urlsafe(16), PBKDF2PasswordHasher()
        user.password = hasher.encode(password, hasher.salt(), iterations=1_000)
    elif not (user.pk and check_password(password, user.password)):
        user.set_password(password)
    for name, value in {"is_active": True, **flags}.items():
        setattr(user, name, value)
    user.save()
    return user, password


@transaction.atomic  # without it, a crash before the credit would make a second account on the next run
def _account() -> Account:
    credited = LedgerEntry.objects.filter(reference=f"support:{_REFERENCE}").select_related("account")
    if found := everywhere.find(lambda: credited.all().first()):
        return found.account
    account = account_lifecycle.make_account("Demo")
    writer.grant_support_credit(account.pk, amount_cents=CREDIT_CENTS, reason="demo credit", reference=_REFERENCE)
    return account


def _api_key(account: Account, previous: Any, owner: User) -> str:
    """Return the secret in the file if its key still works, else that of a new key."""
    key_id = secret.key_id(previous) if isinstance(previous, str) else None
    usable = ApiKey.objects.filter(pk=key_id, account=account, revoked_at=None, paused_at=None, expires_at=None)
    key = usable.first() if key_id else None
    if key and secret.matches(previous, key.digest, settings.KEY_PEPPERS):
        return str(previous)
    return lifecycle.issue_key(account, name="quickstart", created_by=owner)[1]


def _read(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _write(path: Path, facts: dict[str, Any]) -> None:
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=".quickstart-")  # mode 600
    with os.fdopen(descriptor, "w") as file:
        file.write(json.dumps(facts, indent=2) + "\n")
    os.replace(draft, path)
