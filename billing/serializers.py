"""The JSON of billing's API. Cents and camelCase names appear only here."""

from typing import Any

from rest_framework import serializers

from billing import money
from billing.models import Account, LedgerEntry
from gateway_project import timestamps


class BalanceSerializer(serializers.Serializer[Account]):
    """The balance, rounded down in both units."""

    balanceInCents = serializers.IntegerField()
    balanceInDollars = serializers.FloatField()

    def to_representation(self, account: Account) -> dict[str, Any]:
        cents = money.floor_cents(account.balance_nanos)
        return {"balanceInCents": cents, "balanceInDollars": cents / 100}


class LedgerEntrySerializer(serializers.Serializer[LedgerEntry]):
    """One ledger entry. The amounts of consecutive entries add up to their balances."""

    id = serializers.CharField()
    type = serializers.ChoiceField(choices=LedgerEntry.Type.choices)
    amountInCents = serializers.IntegerField()
    balanceAfterInCents = serializers.IntegerField()
    metadata = serializers.DictField()
    createdAt = serializers.CharField(help_text="ISO 8601 with milliseconds and Z")

    def to_representation(self, entry: LedgerEntry) -> dict[str, Any]:
        return {
            "id": str(entry.pk),
            "type": entry.type,
            "amountInCents": money.entry_cents(amount_nanos=entry.amount_nanos, balance_after_nanos=entry.balance_after_nanos),
            "balanceAfterInCents": money.floor_cents(entry.balance_after_nanos),
            "metadata": entry.metadata,
            "createdAt": timestamps.iso_millis(entry.created_at),
        }


class LedgerPageSerializer(serializers.Serializer[Any]):
    entries = LedgerEntrySerializer(many=True)
    limit = serializers.IntegerField()
    offset = serializers.IntegerField()
    count = serializers.IntegerField(help_text="Entries in this response")
