"""A server of Bedrock that recomputes signatures, with code of its own; and the server of a container's credentials.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html. The words are AWS's own.
"""

import hashlib
import hmac
import json
import string
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.completions.providers.access.servers import Answer, Asked
from tests.upstream import Received, Script, refusal, reply, streamed, whole

CONTAINER_SECRET = "of-this-container"  # noqa: S105
_TIME = "%Y%m%dT%H%M%SZ"
_UNRESERVED = string.ascii_letters + string.digits + "-_.~"
_WRONG_SIGNATURE = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and"
    " signing method. Consult the service documentation for details."
)


class Refused(Exception):
    def __init__(self, kind: str, message: str, status: int = 403) -> None:
        self.kind, self.message, self.status = kind, message, status


@dataclass
class Bedrock:
    """Accepts what is signed by one of ``accounts`` (access key -> secret, session secret) for its region and service.

    ``ahead_seconds``: how wrong its clock is.
    """

    region: str = "eu-central-1"
    service: str = "bedrock"
    ahead_seconds: float = 0.0
    accounts: dict[str, tuple[str, str]] = field(default_factory=dict)
    expired: set[str] = field(default_factory=set)  # access keys
    signatures: list[str] = field(default_factory=list)  # that were right
    failures: list[int] = field(default_factory=list)  # statuses of the first replies, although they are signed right
    message: str = ""  # of every refusal, instead of AWS's

    def answer(self, received: Received) -> Script:
        """Return the script of a reply to a request, or of AWS's refusal."""
        try:
            self.signatures.append(self._check(received))
        except Refused as refused:
            body = json.dumps({"message": self.message or refused.message}).encode()
            headers = {"x_amzn_errortype": refused.kind, "date": formatdate(self._now, usegmt=True)}
            return reply(body, status=refused.status, **headers)
        if self.failures:
            return refusal(self.failures.pop(0), "an internal error")
        return streamed() if received.body.get("stream") else whole()

    @property
    def _now(self) -> float:
        return time.time() + self.ahead_seconds

    def _check(self, received: Received) -> str:
        """Return the signature. Raises Refused."""
        algorithm, _, rest = received.headers.get("authorization", "").partition(" ")
        if algorithm != "AWS4-HMAC-SHA256":
            raise Refused("MissingAuthenticationTokenException", "Missing Authentication Token")
        parts = dict(part.strip().split("=", 1) for part in rest.split(","))
        access_key, day, region, service, end = parts["Credential"].split("/")
        secret, session_secret = self.accounts.get(access_key, ("", ""))
        if not secret or received.headers.get("x-amz-security-token", "") != session_secret:
            raise Refused("UnrecognizedClientException", "The security token included in the request is invalid.")
        if region != self.region:
            raise Refused("InvalidSignatureException", "Credential should be scoped to a valid region.")
        if service != self.service:
            raise Refused(
                "InvalidSignatureException", f"Credential should be scoped to correct service: '{self.service}'.", 401
            )
        signed_at = received.headers["x-amz-date"]
        self._check_time(signed_at)
        names = parts["SignedHeaders"].split(";")
        assert names == sorted(names)
        assert {"host", "x-amz-date"} <= {*names}
        assert not session_secret or "x-amz-security-token" in names
        scope = f"{day}/{region}/{service}/{end}"
        key = f"AWS4{secret}".encode()
        for part in (day, region, service, "aws4_request"):
            key = _hmac(key, part)
        to_sign = f"{algorithm}\n{signed_at}\n{scope}\n{_hash(_canonical(received, names).encode())}"
        if not hmac.compare_digest(_hmac(key, to_sign).hex(), parts["Signature"]):
            raise Refused("InvalidSignatureException", _WRONG_SIGNATURE)
        if access_key in self.expired:
            raise Refused("ExpiredTokenException", "The security token included in the request is expired")
        return parts["Signature"]

    def _check_time(self, signed_at: str) -> None:
        now, signed = datetime.fromtimestamp(self._now, UTC), datetime.strptime(signed_at, _TIME).replace(tzinfo=UTC)
        earliest, latest = now - timedelta(minutes=5), now + timedelta(minutes=5)
        if signed < earliest:
            words = f"Signature expired: {signed_at} is now earlier than {earliest:{_TIME}} ({now:{_TIME}} - 5 min.)"
            raise Refused("InvalidSignatureException", words)
        if signed > latest:
            words = f"Signature not yet current: {signed_at} is still later than {latest:{_TIME}} ({now:{_TIME}} + 5 min.)"
            raise Refused("InvalidSignatureException", words)


def answer_container(credentials: Callable[[], dict[str, Any]]) -> Callable[[Asked], Answer]:
    """Return the server that AWS_CONTAINER_CREDENTIALS_FULL_URI names."""

    def answer(asked: Asked) -> Answer:
        if asked.headers.get("authorization") != CONTAINER_SECRET:
            return 401, {"code": "Unauthorized", "message": "no such container"}
        return 200, credentials()

    return answer


def session(access_key: str, seconds: float = 3_600) -> dict[str, str]:
    """Return credentials as the server of a container's returns them."""
    expires_at = datetime.now(UTC) + timedelta(seconds=seconds)
    secrets = {"AccessKeyId": access_key, "SecretAccessKey": secret_of(access_key), "Token": session_of(access_key)}
    return {**secrets, "Expiration": f"{expires_at:%Y-%m-%dT%H:%M:%SZ}"}


def account(access_key: str) -> dict[str, tuple[str, str]]:
    """Return what a server of Bedrock knows of such a session."""
    return {access_key: (secret_of(access_key), session_of(access_key))}


def secret_of(access_key: str) -> str:
    return f"secret/of+{access_key}"


def session_of(access_key: str) -> str:
    return f"session//of+{access_key}=="


def _canonical(received: Received, names: list[str]) -> str:
    address = urlsplit(received.path)
    query = sorted((_quoted(name), _quoted(value)) for name, value in parse_qsl(address.query, keep_blank_values=True))
    lines = ["POST", _quoted(address.path, "/"), "&".join(f"{name}={value}" for name, value in query)]
    lines += [f"{name}:{' '.join(received.headers[name].split())}" for name in names]
    return "\n".join([*lines, "", ";".join(names), _hash(received.raw)])


def _quoted(text: str, further: str = "") -> str:
    return "".join(each if each in _UNRESERVED + further else f"%{ord(each):02X}" for each in text)


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
