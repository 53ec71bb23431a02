"""The JSON of billing's API. Cents and camelCase names appear only here."""

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from billing import money
from billing.models import Account, LedgerEntry
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
