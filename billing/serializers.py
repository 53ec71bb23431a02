"""The JSON of billing's API. Cents and camelCase names appear only here."""

from datetime import UTC, datetime
from typing import Any

from rest_framework import serializers

from billing import money
from billing.ledger_pages import EntryFilter
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


class MomentField(serializers.DateTimeField):
    """A time that must state its offset from UTC, so that no time zone is guessed."""

    default_error_messages = {
        "invalid": "Give an ISO 8601 time, as 2026-11-21T00:00:00Z.",
        "no_offset": "Say the offset from UTC: Z, or as +02:00 with the + written as %2B.",
    }

    def to_internal_value(self, value: Any) -> datetime:
        try:
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is None:
                self.fail("no_offset")
            return moment.astimezone(UTC)
        except (TypeError, ValueError, OverflowError):
            self.fail("invalid")


class LedgerFilterSerializer(serializers.Serializer[Any]):
    """Query parameters that select ledger entries. A parameter that is left out selects all."""

    type = serializers.ChoiceField(
        choices=LedgerEntry.Type.choices,
        required=False,
        error_messages={"invalid_choice": f"Must be one of {', '.join(LedgerEntry.Type.values)}."},
    )
    apiKey = serializers.CharField(source="spender", max_length=64, required=False, help_text="The id of the key that spent it")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        # "from" is a Python keyword and cannot be the name of a class attribute.
        since = MomentField(source="since", required=False, help_text="Booked then or later: ISO 8601 with Z or an offset")
        until = MomentField(source="until", required=False, help_text="Booked before: ISO 8601 with Z or an offset")
        return {**super().get_fields(), "from": since, "to": until}

    def validate(self, attributes: dict[str, Any]) -> dict[str, Any]:
        if "since" in attributes and "until" in attributes and attributes["until"] < attributes["since"]:
            raise serializers.ValidationError({"to": "Must not be before from."})
        return attributes

    @property
    def entry_filter(self) -> EntryFilter:
        """The filter, after ``is_valid``."""
        return EntryFilter(**{name: self.validated_data.get(name) for name in ("type", "spender", "since", "until")})


class LedgerQuerySerializer(LedgerFilterSerializer):
    """Query parameters for one page of ledger entries."""

    limit = serializers.IntegerField(default=10, min_value=1, max_value=100)
    offset = serializers.IntegerField(default=0, min_value=0)


class LedgerPageSerializer(serializers.Serializer[Any]):
    entries = LedgerEntrySerializer(many=True)
    limit = serializers.IntegerField()
    offset = serializers.IntegerField()
    count = serializers.IntegerField(help_text="Entries in this response")
