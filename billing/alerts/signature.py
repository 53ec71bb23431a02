"""Signs webhooks as Standard Webhooks does (https://www.standardwebhooks.com), so that its libraries verify them. Pure."""

import base64
import hmac
import secrets
from collections.abc import Sequence
from hashlib import sha256

_PREFIX = "whsec_"


def make_secret() -> str:
    """Return a new secret, as receivers configure it."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def build_headers(secrets_in_use: Sequence[str], *, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of an attempt at ``timestamp``, in seconds. Each secret signs: a receiver knows one of them."""
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{_sign(secret, signed)}" for secret in secrets_in_use),
    }


def _sign(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    return base64.b64encode(hmac.digest(key, signed, sha256)).decode()
