"""The record of every completion, and the replies that are stored for later requests."""

from datetime import datetime

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from billing.models import Account
from completions.models.catalog import LanguageModel, Price, Provider
from completions.pricing.rates import RateSheet
from completions.pricing.usage import Usage
from gateway_project import identifiers
from gateway_project.db.owned import Kept, OwnedModel
from keys.models import ApiKey, Run


class Completion(OwnedModel):
    """One admitted request, under the id that the caller sees. Its hold and its ledger entry have the same id."""

    kept = Kept("requests", "It stays: what was charged, and for what.")

    class Settlement(models.TextChoices):
        REPORTED = "reported", "complete, with the provider's own token counts"
        ESTIMATED = "estimated", "complete, but the provider sent no token counts"
        PARTIAL = "partial", "cut short: the input and what was relayed"
        RECOVERED = "recovered", "its process died: the input and what it had noted as relayed"
        RELEASED = "released", "nothing was charged"
        EXPIRED = "expired", "nobody settled it in time; nothing was charged"
        CORRECTED = "corrected", "the exact figures of an earlier one that was recovered or had expired"

    id = models.CharField(primary_key=True, max_length=64, db_collation="C")
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="completions")
    key = models.ForeignKey(ApiKey, on_delete=models.PROTECT, related_name="completions", db_index=False)
    model = models.ForeignKey(LanguageModel, on_delete=models.PROTECT, related_name="+", db_index=False)
    price = models.ForeignKey(Price, on_delete=models.PROTECT, related_name="+", db_index=False)
    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="+", db_index=False)
    is_stream = models.BooleanField("streamed")
    spending_day = models.DateField(help_text="The UTC day of the key that it counts on.")
    counted_tokens = models.BigIntegerField(help_text="What the key's tokens per minute were charged at admission.")
    prompt_estimate = models.BigIntegerField(default=0, help_text="Tokens of the prompt, should nobody count them.")
    service_tier = models.CharField(
        max_length=10, null=True, help_text="The tier with prices of its own at which it runs, and in the end ran. Empty: none."
    )
    images = models.PositiveIntegerField(default=0, help_text="Of the prompt, for models that charge for each.")
    limit_nanos = models.BigIntegerField(null=True, help_text="The key's spending limit at admission. Empty: it had none.")
    limit_since = models.DateField(null=True, help_text="The first day that the limit counted. Empty: since ever.")
    # Of a repetition under the Idempotency-Key of a request whose process died: it pays only what exceeds the earlier charges.
    # Of a correction: what it corrects.
    repeats = models.CharField(
        max_length=64, null=True, help_text="The earlier run under its Idempotency-Key, whose process died. Empty: none."
    )
    charged_before_nanos = models.BigIntegerField(
        default=0, db_default=0, help_text="What earlier runs under its Idempotency-Key were charged, and it is not."
    )
    held_nanos = models.BigIntegerField(
        null=True, help_text="What was held for it. Empty: it was admitted before this was noted."
    )
    own_key_fee = models.IntegerField(
        null=True, help_text="What is charged of the price, in basis points, for the account's own key. Empty: ours serves."
    )
    provider_held_nanos = models.BigIntegerField(
        default=0, db_default=0, help_text="What limits and budgets held for the provider's price, beside the hold."
    )
    provider_nanos = models.BigIntegerField(
        null=True, help_text="The price without the share, where an own key served. Where it counts, no more than was held."
    )
    counts_price = models.BooleanField(
        null=True, help_text="Whether limits and budgets count the provider's price. Empty: ours serves."
    )
    relayed_bytes = models.BigIntegerField(null=True, help_text="Checkpoint. Empty: the provider had not begun.")
    checkpointed_at = models.DateTimeField(null=True)
    settlement = models.CharField(max_length=10, choices=Settlement.choices, null=True, help_text="Empty while it runs.")
    prompt_tokens = models.BigIntegerField(null=True)
    cached_tokens = models.BigIntegerField(null=True)
    cache_write_tokens = models.BigIntegerField(null=True)
    cache_write_1h_tokens = models.BigIntegerField(null=True, help_text="Of these, those that the cache keeps for an hour.")
    completion_tokens = models.BigIntegerField(null=True)
    web_searches = models.BigIntegerField(null=True, help_text="Searches of the web by the provider. Empty: none.")
    other_counts = models.JSONField(null=True, help_text="Numbers of meters that have no column. Empty: none.")
    cost_nanos = models.BigIntegerField(null=True)
    attempts = models.PositiveSmallIntegerField(null=True, help_text="How many times a provider was asked.")
    first_token_ms = models.PositiveIntegerField(
        "time to first token, ms", null=True, help_text="Of a stream: from asking the provider that answered."
    )
    streamed_ms = models.PositiveIntegerField("streaming time, ms", null=True, help_text="From first words to last.")
    failed_attempts = models.JSONField(
        null=True,
        help_text="Of each attempt that failed: provider, status and reason. Empty: none failed. []: none was made,"
        " because the circuits of all routes were open.",
    )
    request_id = models.CharField(max_length=40, null=True, db_collation="C", help_text="The reply's x-request-id.")
    provider_request_id = models.CharField(
        max_length=100, null=True, db_collation="C", help_text="The provider's own id of the latest attempt."
    )
    end_user = models.CharField(max_length=512, null=True, help_text="The caller's own id of who asked. Empty: it said none.")
    tags = models.JSONField(null=True, help_text="Values by name, as the caller said. Empty: it said none.")
    # Of keys: ``Run`` and ``Budget``. The month is that of the spending day.
    run = models.CharField(
        max_length=Run.NAME_CHARACTERS_MAX, null=True, db_collation="C", help_text="The caller's id of its run. Empty: none."
    )
    run_budget_nanos = models.BigIntegerField(null=True, help_text="The budget of its run.")
    budgets = models.JSONField(
        null=True,
        help_text="The ids of the monthly budgets that it counts on, each with the nanodollars at which it stopped; null where"
        " it only warned. Empty: none.",
    )
    data_demanded = models.JSONField(
        null=True, help_text="What was demanded of providers about data, by who did: request, key, account. Empty: nothing."
    )
    data_promised = models.JSONField(null=True, help_text="What the route that served promised. Empty: nothing was demanded.")
    created_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(settlement__isnull=True, finished_at__isnull=True)
                | Q(settlement__isnull=False, finished_at__isnull=False),
                name="a_completion_is_finished_when_it_is_settled",
            ),
            models.UniqueConstraint(fields=["repeats"], condition=Q(repeats__isnull=False), name="a_run_is_repeated_once"),
        ]
        indexes = [
            models.Index(fields=["request_id"], name="completions_by_request"),
            models.Index(fields=["key", "-id"], condition=Q(failed_attempts__isnull=False), name="failed_completions_by_key"),
            models.Index(fields=["key", "-id"], name="completions_by_key"),
            models.Index(fields=["key", "run"], condition=Q(run__isnull=False), name="completions_by_run"),
            # Settlement writes the column. A B-tree on it would make each settlement write into every index of the table.
            BrinIndex(
                fields=["provider_request_id"],
                opclasses=["text_bloom_ops"],
                autosummarize=True,
                name="completions_by_provider_request",
            ),
        ]

    def __str__(self) -> str:
        return self.id

    @property
    def sheet(self) -> RateSheet:
        """The rates that it is charged at: with an own key only the fee."""
        return self.price.sheet if self.own_key_fee is None else self.price.sheet.share(self.own_key_fee)

    @property
    def usage(self) -> Usage:
        """The usage in the row."""
        return Usage(
            self.prompt_tokens or 0,
            self.completion_tokens or 0,
            self.cached_tokens or 0,
            self.cache_write_tokens or 0,
            cache_write_1h_tokens=self.cache_write_1h_tokens or 0,
            tier=self.service_tier or "",
            web_searches=self.web_searches or 0,
            others=self.other_counts or {},
        )

    @staticmethod
    def least_id(moment: datetime) -> str:
        """Return an id that is not greater than those of completions admitted from this moment on: ids sort by time."""
        return f"chatcmpl-{identifiers.first_digits(moment)}"


class IdempotentRequest(OwnedModel):
    """A request under an Idempotency-Key of an account, and its reply, encrypted, once there is one.

    Where there is no reply and its completion runs no longer, a repetition runs, and pays only what exceeds the charges before.
    """

    kept = Kept("It has a reply for repetitions of its request, for a day.", "It has expired before.")
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="+", db_index=False)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64, help_text="SHA-256 of what was asked.")
    completion = models.OneToOneField(Completion, on_delete=models.PROTECT, related_name="+")
    is_stream = models.BooleanField()
    sealed_reply = models.TextField(null=True, editable=False)
    reply_bytes = models.IntegerField(
        default=0, db_default=0, help_text="Of sealed_reply, as counted in the account's stored_reply_bytes."
    )
    is_too_large = models.BooleanField(default=False, help_text="The reply was not kept.")
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["account", "key"], name="an_account_uses_a_key_for_one_request")]
        indexes = [
            models.Index(fields=["account", "expires_at", "id"], condition=Q(reply_bytes__gt=0), name="stored_replies_by_age")
        ]

    def __str__(self) -> str:
        return f"{self.key} of {self.account_id}"


class StoredResponse(OwnedModel):
    """A response that later requests may continue from, encrypted: its items of input and output, and the reply without these.

    ``previous_id`` is the response that it continues, which may be deleted. Until the settlement of its completion,
    ``stored_bytes`` is 0, and the row is not read, unless it runs in the background.
    """

    kept = Kept("responses", "It is deleted within the hour: the account keeps none.")
    completion = models.OneToOneField(Completion, on_delete=models.PROTECT, primary_key=True, related_name="+")
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="+", db_index=False)
    previous_id = models.CharField(max_length=64, null=True, editable=False, db_collation="C")
    sealed_input = models.TextField(null=True, editable=False)
    sealed_output = models.TextField(null=True, editable=False)
    sealed_reply = models.TextField(null=True, editable=False)
    stored_bytes = models.IntegerField(
        default=0, db_default=0, help_text="Of the sealed texts, as counted in the account's stored_response_bytes."
    )
    is_background = models.BooleanField(default=False, db_default=False)
    cancelled_at = models.DateTimeField(null=True, editable=False)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(
                fields=["account", "expires_at", "completion"], condition=Q(stored_bytes__gt=0), name="stored_responses_by_age"
            ),
            models.Index(
                fields=["account", "expires_at", "completion"], condition=Q(stored_bytes=0), name="unreplied_responses_by_age"
            ),
        ]

    def __str__(self) -> str:
        return self.completion_id
