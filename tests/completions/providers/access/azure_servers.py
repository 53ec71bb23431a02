"""Servers of Azure on loopback: the identity endpoint of an App Service, and one that gives applications access keys.

https://learn.microsoft.com/azure/app-service/overview-managed-identity#rest-endpoint-reference.
"""

import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from tests.completions.providers.access.google_servers import rsa_key
from tests.completions.providers.access.servers import AccessKeys, Answer, Asked

IDENTITY_HEADER = "of-this-app"
APPLICATION, APPLICATION_SECRET = "0b6f-application", "its~secret.of-an-application"  # noqa: S105
_RESOURCE = "https://ai.azure.com"


def answer_identity(keys: AccessKeys) -> Callable[[Asked], Answer]:
    """Return what IDENTITY_ENDPOINT names."""

    def answer(asked: Asked) -> Answer:
        if asked.headers.get("x-identity-header") != IDENTITY_HEADER:
            return 401, {"statusCode": 401, "message": "no such header"}
        if (asked.method, asked.query.get("api-version"), asked.query.get("resource")) != ("GET", "2019-08-01", _RESOURCE):
            return 400, {"statusCode": 400, "message": f"no such resource: {asked.query}"}
        expires_on = str(int(time.time() + keys.seconds))
        return 200, {"access_token": keys.issue(), "expires_on": expires_on, "resource": _RESOURCE, "token_type": "Bearer"}

    return answer


def answer_applications(keys: AccessKeys, url: str) -> Callable[[Asked], Answer]:
    """Return a server of access keys for applications: that of AD FS, as Entra ID's own is known by its host."""

    def answer(asked: Asked) -> Answer:
        if asked.path.endswith("/.well-known/openid-configuration"):
            addresses = {name: f"{url}/adfs/oauth2/{name}" for name in ("authorize", "token")}
            names = {"authorization_endpoint": addresses["authorize"], "token_endpoint": addresses["token"]}
            return 200, {"issuer": f"{url}/adfs", **names}
        form = asked.form
        assert (form["grant_type"], form["scope"].split()[0]) == ("client_credentials", f"{_RESOURCE}/.default")
        if (form["client_id"], form["client_secret"]) != (APPLICATION, APPLICATION_SECRET):
            return 401, {
                "error": "invalid_client",
                "error_description": "AADSTS7000215: Invalid client secret provided. Ensure the secret being sent in the"
                " request is the client secret value, not the client secret ID, for a secret added to app '0b6f'.",
            }
        return 200, {"access_token": keys.issue(), "expires_in": int(keys.seconds), "token_type": "Bearer"}

    return answer


def certificate(folder: Path) -> tuple[ssl.SSLContext, str]:
    """Return the context of a server on loopback with a certificate of its own, and the file by which clients trust it."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now, day = datetime.now(UTC), timedelta(days=1)
    builder = x509.CertificateBuilder(name, name, rsa_key().public_key(), x509.random_serial_number(), now - day, now + day)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    signed, pem = builder.sign(rsa_key(), hashes.SHA256()), serialization.Encoding.PEM
    file = folder / "certificate.pem"
    private = rsa_key().private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(signed.public_bytes(pem) + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context, str(file)
