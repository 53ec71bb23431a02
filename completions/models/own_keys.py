"""The keys of providers that accounts bring: their requests show these instead of ours."""

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from billing.models import Account, DataPolicy
from completions.chat import Promise
from completions.models.catalog import Provider
from gateway_project import identifiers, secretbox
from gateway_project.db.owned import DELETED, Kept, OwnedModel


class OwnKey(OwnedModel):
    """An account's own key of a provider. Written under the lock of the account, whose ``has_own_keys`` says if it has some."""

    HINT_CHARACTERS: ClassVar[int] = 4

    kept = Kept("own_keys", DELETED)
    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="own_keys", db_index=False)
    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="+", db_index=False)
    sealed_secret = models.TextField(editable=False)
    hint = models.CharField(max_length=HINT_CHARACTERS, help_text="How it ends.")
    model_ids = ArrayField(
        models.CharField(max_length=200), default=list, help_text="That it serves. Empty: all of the provider."
    )
    falls_back = models.BooleanField(default=False, help_text="Ours may serve at the full price when it fails.")
    counts_price = models.BooleanField(
        default=False, db_default=False, help_text="Limits and budgets count the provider's price, too, not our fee alone."
    )
    promised = models.CharField(
        max_length=10,
        blank=True,
        default="",
        db_default="",
        choices=[(policy, str(policy.value)) for policy in DataPolicy],
        help_text="The strictest demand about data that the account's contract with the provider meets. Empty: none.",
    )
    check_words = models.CharField(max_length=200, blank=True, help_text="What came of the call with which it was checked.")
    added_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["account", "provider"], name="an_account_has_a_key_of_a_provider_once")]

    def __str__(self) -> str:
        return f"own key of {self.provider_id}"

    def serves(self, model_id: str) -> bool:
        return not self.model_ids or model_id in self.model_ids

    def promise(self, region: str) -> Promise:
        """Return what the provider promises the account of data that it processes in this region."""
        keeps_nothing = self.promised == DataPolicy.ZDR
        return Promise(0 if keeps_nothing else None, False if self.promised else None, region)

    def seal(self, secret: str) -> None:
        """Store the secret, encrypted. The text is useless in the row of another account, and at another address."""
        self.sealed_secret = secretbox.encrypt(secret, purpose=self._purpose(self.provider.base_url))
        self.hint = secret[-self.HINT_CHARACTERS :]

    def read_secret(self, base_url: str) -> str:
        """Return the key for a provider at this address. Raises secretbox.Unreadable, also if it was entered for another."""
        return secretbox.decrypt(self.sealed_secret, purpose=self._purpose(base_url))

    def _purpose(self, base_url: str) -> str:
        return f"own-key:{self.account_id}:{self.provider_id}:{base_url.rstrip('/')}"
