"""The credential of an account's own key: opened for each request that shows it, and kept nowhere else."""

from collections.abc import Callable, Mapping

import msgspec

from completions.chat import Proof
from completions.providers.access.keeper import Bearer, CredentialUnavailable
from gateway_project import secretbox

ShowKey = Callable[[str], Mapping[str, str]]


class GivenProof(Bearer, frozen=True):
    """A key, shown as its provider wants it."""

    show: ShowKey

    def headers(self, method: str, url: str, body: bytes) -> dict[str, str]:
        return dict(self.show(self.secret))


class GivenKey(msgspec.Struct, frozen=True):
    """``open`` decrypts the key; it is None where the provider no longer takes keys of accounts."""

    open: Callable[[], str] | None
    show: ShowKey | None

    def proof(self) -> Proof:
        """Raises CredentialUnavailable."""
        if self.open is None or self.show is None:
            raise CredentialUnavailable("the provider no longer takes keys of accounts")
        try:
            return GivenProof(self.open(), self.show)
        except secretbox.Unreadable as error:
            reason = f"the provider has another address now, or the key cannot be read ({error}): enter it again"
            raise CredentialUnavailable(reason) from error

    def renew(self, refused: Proof) -> bool:
        return False
