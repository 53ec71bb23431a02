"""Google's token server, its security token service and its metadata server on loopback. Each checks who asks.

https://developers.google.com/identity/protocols/oauth2/service-account#httprest, https://google.aip.dev/auth/4117,
https://cloud.google.com/compute/docs/access/authenticate-workloads.
"""

import base64
import json
import time
from collections.abc import Callable
from functools import cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.completions.providers.access.servers import AccessKeys, Answer, Asked

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
EMAIL = "gateway@acme.iam.gserviceaccount.com"
SUBJECT_SECRET = "an-identity-of-the-workload"  # noqa: S105
_JWT_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_TIMES = (
    "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe."
    " Check your iat and exp values in the JWT claim."
)


class Clock:
    ahead_seconds = 0.0


clock = Clock()  # of the token server


@cache
def rsa_key(number: int = 0) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65_537, 2_048)


def another_key() -> str:
    return _pem(rsa_key(1))


def _pem(key: rsa.RSAPrivateKey) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def service_account(token_uri: str, **changed: str) -> str:
    """Return the JSON of a service account, as Google's console downloads it."""
    fields = {"type": "service_account", "project_id": "acme", "private_key_id": "k1", "private_key": _pem(rsa_key())}
    return json.dumps({**fields, "client_email": EMAIL, "client_id": "1", "token_uri": token_uri, **changed})


def workload_identity(token_url: str, subject_file: str) -> str:
    """Return the JSON of an external account, whose own access key is in a file, as Kubernetes writes it."""
    return json.dumps(
        {
            "type": "external_account",
            "audience": "//iam.googleapis.com/locations/global/workloadIdentityPools/acme/providers/kubernetes",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": token_url,
            "credential_source": {"file": subject_file},
        }
    )


def answer_assertions(keys: AccessKeys) -> Callable[[Asked], Answer]:
    """Return a token server for service accounts, which checks the signature of what these assert."""

    def answer(asked: Asked) -> Answer:
        if asked.form.get("grant_type") != _JWT_GRANT:
            return _refusal("unsupported_grant_type", "Invalid grant_type")
        head, claims, signature = asked.form["assertion"].split(".")
        try:
            signed = f"{head}.{claims}".encode()
            rsa_key().public_key().verify(_decoded(signature), signed, padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            return _refusal("invalid_grant", "Invalid JWT Signature.")
        claimed, now = json.loads(_decoded(claims)), time.time() + clock.ahead_seconds
        assert json.loads(_decoded(head)) == {"typ": "JWT", "alg": "RS256", "kid": "k1"}
        assert (claimed["iss"], claimed["scope"]) == (EMAIL, SCOPE)
        assert claimed["aud"].endswith(asked.path)
        if abs(now - claimed["iat"]) > 300 or not now < claimed["exp"] <= claimed["iat"] + 3_600:
            return _refusal("invalid_grant", _TIMES)
        return 200, {"access_token": keys.issue(), "expires_in": keys.seconds, "token_type": "Bearer"}

    return answer


def answer_exchanges(keys: AccessKeys) -> Callable[[Asked], Answer]:
    """Return a security token service, which exchanges the access key of a workload for one of its own."""

    def answer(asked: Asked) -> Answer:
        form = asked.form
        if (
            form["grant_type"] != _EXCHANGE_GRANT
            or form["scope"] != SCOPE
            or "acme/providers/kubernetes" not in form["audience"]
        ):
            return _refusal("invalid_request", "Bad request")
        if form["subject_token"] != SUBJECT_SECRET:
            return _refusal("invalid_grant", "Unable to verify the ID Token signature")
        kind = "urn:ietf:params:oauth:token-type:access_token"
        return 200, {
            "access_token": keys.issue(),
            "issued_token_type": kind,
            "token_type": "Bearer",
            "expires_in": keys.seconds,
        }

    return answer


def answer_metadata(keys: AccessKeys) -> Callable[[Asked], Answer]:
    """Return the metadata server of a machine of Google Cloud."""
    account = "/computeMetadata/v1/instance/service-accounts"

    def answer(asked: Asked) -> Answer:
        if asked.headers.get("metadata-flavor") != "Google":
            return 403, "Missing Metadata-Flavor:Google header."
        match asked.path:
            case "/":
                return 200, "computeMetadata/"
            case "/computeMetadata/v1/project/project-id":
                return 200, "acme"
            case "/computeMetadata/v1/universe/universe-domain":
                return 200, "googleapis.com"
            case path if path == f"{account}/default/":
                return 200, {"email": EMAIL, "aliases": ["default"], "scopes": [SCOPE]}
            case path if path in (f"{account}/default/token", f"{account}/{EMAIL}/token"):
                return 200, {"access_token": keys.issue(), "expires_in": keys.seconds, "token_type": "Bearer"}
        return 404, "not found"

    return answer


def _refusal(code: str, description: str) -> Answer:
    return 400, {"error": code, "error_description": description}


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
