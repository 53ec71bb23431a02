"""Signatures of AWS (Signature Version 4), by botocore, with the credentials that its chain finds.

That looks at the variables AWS_*, at profiles, at web identity, at containers and at the machine's role:
https://boto3.amazonaws.com/v1/documentation/api/latest/guide/credentials.html.
"""

from collections.abc import Mapping

import msgspec
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import NoCredentialsError
from botocore.session import Session

from completions.providers.access.keeper import Fetch, Fetched

# botocore renews by itself what expires within 15 minutes, and refuses to return what expires within 10.
_GOOD_SECONDS, _RENEWED_AFTER_SECONDS = 600, 60


class Signer(msgspec.Struct, frozen=True):
    """Signs requests to one service in one region."""

    access_key: str
    secret: str
    session_secret: str | None
    region: str
    service: str

    @property
    def secrets(self) -> tuple[str, ...]:
        return self.secret, self.session_secret or ""

    @property
    def hint(self) -> str:
        return f" (signed for {self.service} in {self.region})"

    def headers(self, method: str, url: str, body: bytes) -> dict[str, str]:
        request = AWSRequest(method=method, url=url, data=body)
        credentials = Credentials(self.access_key, self.secret, self.session_secret)
        SigV4Auth(credentials, self.service, self.region).add_auth(request)
        return dict(request.headers.items())


def make_fetch(auth: Mapping[str, str], key: str) -> Fetch:
    """Return what fetches from the chain. ``auth`` has ``region`` and ``service``."""
    credentials = Session().get_credentials()
    if credentials is None:
        raise NoCredentialsError

    def fetch() -> Fetched:
        found = credentials.get_frozen_credentials()
        signer = Signer(found.access_key, found.secret_key, found.token, auth["region"], auth["service"])
        return Fetched(signer, _GOOD_SECONDS, _RENEWED_AFTER_SECONDS)

    return fetch
