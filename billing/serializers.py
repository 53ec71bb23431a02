"""The JSON of billing's API. Cents and camelCase names appear only here."""

from base64 import b64encode
from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from billing import money
from billing.models import Account, LedgerEntry, LedgerRoot
from billing.proof.chain import RecordedEntry
from billing.proof.inclusion import Inclusion
from gateway_project.text import timestamps


class BalanceSerializer(serializers.Serializer[Account]):
    """The balance, rounded down in both units."""

    balanceInCents = serializers.IntegerField(help_text="Rounded down.")
    balanceInDollars = serializers.FloatField(help_text="Rounded down to a whole cent.")

    def to_representation(self, account: Account) -> dict[str, Any]:
        cents = money.floor_cents(account.balance_nanos)
        return {"balanceInCents": cents, "balanceInDollars": cents / 100}


@extend_schema_serializer(
    description="Which fields there are depends on the type. A purchase has the payment's id, named for the processor."
)
class LedgerEntryMetadataSerializer(serializers.Serializer[Any]):
    model = serializers.CharField(required=False, help_text="The model that answered. In USAGE_DEBIT, as the next six.")
    tokens = serializers.IntegerField(required=False, min_value=0, help_text="Input and output tokens together.")
    completionId = serializers.CharField(required=False, help_text="The id of the completion.")
    promptTokens = serializers.IntegerField(required=False, min_value=0, help_text="Tokens of the prompt.")
    completionTokens = serializers.IntegerField(required=False, min_value=0, help_text="Tokens that were generated.")
    costInDollars = serializers.CharField(required=False, help_text="What was charged, exactly.")
    settlement = serializers.CharField(required=False, help_text="How the tokens were counted.")
    repeats = serializers.CharField(
        required=False, help_text="The earlier run under the same Idempotency-Key, whose process died."
    )
    corrects = serializers.CharField(required=False, help_text="Of a correction: the completion that it corrects.")
    chargedBeforeInDollars = serializers.CharField(
        required=False, help_text="What that run and those before it were charged, by which this one costs less."
    )
    stripePaymentId = serializers.CharField(required=False, help_text="In CREDIT_PURCHASE.")
    reason = serializers.CharField(required=False, help_text="In SUPPORT_CREDIT and REFUND_DEBIT.")


class LedgerEntrySerializer(serializers.Serializer[LedgerEntry]):
    """One ledger entry. The amounts of consecutive entries add up to their balances."""

    id = serializers.CharField(help_text="The id of the entry.")
    type = serializers.ChoiceField(choices=LedgerEntry.Type.choices, help_text="Why the balance changed.")
    amountInCents = serializers.IntegerField(help_text="The change of balanceAfterInCents; negative for debits.")
    balanceAfterInCents = serializers.IntegerField(help_text="Rounded down.")
    metadata = LedgerEntryMetadataSerializer(help_text="What the entry is about.")
    createdAt = serializers.DateTimeField(help_text="ISO 8601 with milliseconds and Z.")

    def to_representation(self, entry: LedgerEntry) -> dict[str, Any]:
        return {
            "id": str(entry.pk),
            "type": entry.type,
            "amountInCents": entry.amount_cents,
            "balanceAfterInCents": money.floor_cents(entry.balance_after_nanos),
            "metadata": entry.metadata,
            "createdAt": timestamps.iso_millis(entry.created_at),
        }


class LedgerPageSerializer(serializers.Serializer[Any]):
    entries = LedgerEntrySerializer(many=True, help_text="The entries, the most recent first.")
    limit = serializers.IntegerField(help_text="The limit that was asked for.")
    offset = serializers.IntegerField(help_text="How many entries were skipped.")
    count = serializers.IntegerField(help_text="How many entries this reply has.")


class HexField(serializers.CharField):
    def to_representation(self, value: Any) -> str:
        return bytes(value).hex()


class Base64Field(serializers.CharField):
    def to_representation(self, value: Any) -> str:
        return b64encode(value).decode()


class LedgerHeadSerializer(serializers.Serializer[Any]):
    """The last entry. Whoever keeps it can prove later that nothing before it was changed."""

    entry = serializers.IntegerField(min_value=1, help_text="The number of the entry in the account.")
    hash = HexField(help_text="SHA-256 over the entry and all before it, in hexadecimal digits.")


class LedgerRootSerializer(serializers.Serializer[LedgerRoot]):
    """A signed root over the last entries of all accounts."""

    number = serializers.IntegerField(min_value=1, help_text="The number of the root.")
    statement = serializers.CharField(help_text="The signed text: lines of names and values.")
    signature = Base64Field(help_text="The Ed25519 signature of the statement's UTF-8 bytes, in Base64.")


class LedgerInclusionSerializer(serializers.Serializer[Inclusion]):
    """How the root includes the account's last entry of then (RFC 6962)."""

    leaf = serializers.IntegerField(min_value=0, help_text="The account's place in the tree.")
    entry = serializers.IntegerField(
        source="seq", min_value=1, help_text="The number of the account's last entry when the root was made."
    )
    hash = HexField(help_text="The hash of that entry.")
    path = serializers.ListField(child=HexField(), help_text="What the leaf is joined with, from it to the root.")


class LedgerRecordSerializer(serializers.Serializer[RecordedEntry]):
    """An entry as its hash was made of it."""

    record = serializers.CharField(help_text="The text of the entry, a JSON array.")
    hash = HexField(help_text="The hash of the entry.")


class LedgerProofSerializer(serializers.Serializer[Any]):
    """A proof of the account's ledger. A part that does not exist yet is null."""

    account = serializers.CharField(help_text="The id of the account.")
    head = LedgerHeadSerializer(allow_null=True, help_text="The last entry.")
    root = LedgerRootSerializer(allow_null=True, help_text="The root that was asked for, or the latest.")
    inclusion = LedgerInclusionSerializer(allow_null=True, help_text="How the root includes the account.")
    entries = LedgerRecordSerializer(many=True, help_text="The entries after `afterEntry`, in their order.")
    roots = LedgerRootSerializer(many=True, help_text="The roots after `afterRoot`, in their order.")
