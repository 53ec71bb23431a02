"""The Ed25519 keys that sign roots: sealed in the database, the newest signs. ``rotate_root_key`` makes another."""

import json
from base64 import urlsafe_b64encode
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from billing.models import RootKey
from gateway_project import secretbox
from gateway_project.web import public_page


def make_key() -> RootKey:
    """Make the key that signs from now on. Those before it stay, to verify."""
    secret = Ed25519PrivateKey.generate()
    public = secret.public_key().public_bytes_raw()
    id = _base64(sha256(json.dumps(_jwk(public), separators=(",", ":")).encode()).digest())
    sealed = secretbox.encrypt_bytes(secret.private_bytes_raw(), purpose=_purpose(id))
    return RootKey.objects.create(id=id, public_key=public, sealed_secret=sealed)


def lock_key() -> RootKey:
    """Return the key that signs, locked: one process at a time signs."""
    return RootKey.objects.select_for_update().order_by("-made_at").first() or make_key()


def sign(key: RootKey, statement: str) -> bytes:
    """Return the signature. Raises secretbox.Unreadable."""
    secret = secretbox.decrypt_bytes(key.sealed_secret, purpose=_purpose(key.pk))
    return Ed25519PrivateKey.from_private_bytes(secret).sign(statement.encode())


@require_safe
def show_keys(request: HttpRequest) -> HttpResponseBase:
    """Reply with the public keys, the newest first, as a JSON Web Key Set (RFC 7517, RFC 8037)."""

    def render() -> str:
        keys = RootKey.objects.order_by("-made_at")
        return json.dumps(
            {"keys": [{**_jwk(bytes(key.public_key)), "kid": key.pk, "alg": "EdDSA", "use": "sig"} for key in keys]}
        )

    return public_page.respond(request, "ledger-keys", render, headers={"Content-Type": "application/json"})


def _jwk(public: bytes) -> dict[str, str]:
    """Return the required members in the order of their names, whose digest is the thumbprint."""
    return {"crv": "Ed25519", "kty": "OKP", "x": _base64(public)}


def _base64(value: bytes) -> str:
    return urlsafe_b64encode(value).decode().rstrip("=")


def _purpose(id: str) -> str:
    return f"root key {id}"
