"""Sums of completions by hour and day."""

from django.db import models

from billing.models import Account
from completions.models.catalog import LanguageModel, Provider
from gateway_project.db.owned import Kept, OwnedModel


class ProviderDay(OwnedModel):
    """The charges of a UTC day for a model at a provider, and its tokens. ``usage.sums`` adds them; kept for ever."""

    day = models.DateField()
    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="+", db_index=False)
    model = models.ForeignKey(LanguageModel, on_delete=models.PROTECT, related_name="+", db_index=False)
    service_tier = models.CharField(max_length=10, blank=True, help_text="Empty: none with prices of its own.")
    completions = models.BigIntegerField()
    charged_nanos = models.BigIntegerField()
    prompt_tokens = models.BigIntegerField()
    cached_tokens = models.BigIntegerField()
    cache_write_tokens = models.BigIntegerField()
    cache_write_1h_tokens = models.BigIntegerField()
    completion_tokens = models.BigIntegerField()
    images = models.BigIntegerField()
    web_searches = models.BigIntegerField()
    bands = models.JSONField(
        default=dict,
        db_default={},
        help_text='Of these, by threshold, what long prompts used and were charged; at "0", numbers without a column.',
    )

    class Meta:
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["day", "provider", "model", "service_tier"], name="a_day_of_a_provider_is_summed_up_once"
            )
        ]
        verbose_name = "margin"

    def __str__(self) -> str:
        return f"{self.model_id} at {self.provider_id} on {self.day:%Y-%m-%d}"


class CompletionHour(OwnedModel):
    """The completions of all accounts that ended in one hour. ``usage.sums`` adds them, and ``hours`` their times."""

    hour = models.DateTimeField(primary_key=True)
    completions = models.BigIntegerField()
    cost_nanos = models.BigIntegerField(help_text="What they cost in all.")
    first_token_p50_ms = models.PositiveIntegerField(
        null=True, help_text="Half of the streams began sooner. Empty: there were none."
    )
    first_token_p99_ms = models.PositiveIntegerField(null=True, help_text="99 % of the streams began sooner.")

    class Meta:
        default_permissions = ("view",)
        verbose_name = "hour of completions"
        verbose_name_plural = "hours of completions"

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H:%M} UTC"


class FirstTokenHour(OwnedModel):
    """How many streams that ended in one hour began after about so many milliseconds, in steps of 2 %."""

    hour = models.DateTimeField()
    milliseconds = models.IntegerField()
    streams = models.BigIntegerField()

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["hour", "milliseconds"], name="streams_are_counted_by_their_time")]


class UsageSums(OwnedModel):
    """The usage of an account in one hour or on one day. A request counts at the time of its ledger entry, or else of its end.

    Only ``completions.usage.sums`` writes these rows. It reads what is booked.
    """

    kept = Kept("It is a sum of requests.", "It stays: a sum of requests, by their labels.")
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="+", db_index=False)
    requests = models.BigIntegerField(help_text="All that ended.")
    errors = models.BigIntegerField(help_text="Those that cost nothing and have no ledger entry.")
    prompt_tokens = models.BigIntegerField()
    completion_tokens = models.BigIntegerField()
    cost_nanos = models.BigIntegerField()
    first_tokens = models.BigIntegerField(help_text="Streams whose first token was timed.")
    first_token_ms = models.BigIntegerField(help_text="The sum of their times.")

    class Meta:
        abstract = True
        default_permissions = ()


class UsageHour(UsageSums):
    """By the key that asked and the model that answered."""

    hour = models.DateTimeField()
    key_id = models.CharField(max_length=64, db_collation="C")
    model_id = models.CharField(max_length=200, db_collation="C")

    class Meta(UsageSums.Meta):
        constraints = [
            models.UniqueConstraint(fields=["account", "hour", "key_id", "model_id"], name="usage_is_summed_up_once")
        ]
        indexes = [models.Index(fields=["hour"], name="usage_by_hour")]


class LabelSums(UsageSums):
    """By what requests were labelled with: their end user, under an empty name, or one of their tags."""

    name = models.CharField(max_length=64, db_collation="C")
    value = models.CharField(max_length=512, db_collation="C")

    class Meta(UsageSums.Meta):
        abstract = True


class LabelHour(LabelSums):
    """Of the last days: then they are added to those of their day."""

    hour = models.DateTimeField()

    class Meta(LabelSums.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["account", "hour", "name", "value"], nulls_distinct=False, name="labels_are_summed_up_once"
            )
        ]
        indexes = [
            models.Index(fields=["account", "name", "hour"], name="labels_by_name"),
            models.Index(fields=["hour"], name="labels_by_hour"),
        ]


class LabelDay(LabelSums):
    """Of the UTC days before."""

    day = models.DateField()

    class Meta(LabelSums.Meta):
        constraints = [models.UniqueConstraint(fields=["account", "name", "day", "value"], name="labels_are_in_their_day_once")]


class UsageMark(OwnedModel):
    """How far the usage of an account is summed up: by the seq of its ledger; of what has no entry, by the time of its end."""

    kept = Kept("It says how far requests are summed up.", "It stays: a time.")
    account = models.OneToOneField(Account, on_delete=models.PROTECT, primary_key=True, related_name="+")
    last_seq = models.BigIntegerField(default=0, db_default=0)
    failures_until = models.DateTimeField(null=True, help_text="Empty: none was summed up.")

    class Meta:
        default_permissions = ()


class UptimeSums(OwnedModel):
    """How many requests for a model or attempts at a provider were answered in an hour or on a day. ``uptime`` writes it."""

    is_day = models.BooleanField()
    since = models.DateTimeField()
    kind = models.CharField(max_length=10, db_collation="C", help_text="model or provider.")
    subject = models.CharField(max_length=200, db_collation="C", help_text="The id of the model, or the slug of the provider.")
    answered = models.BigIntegerField()
    failed = models.BigIntegerField()

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["is_day", "since", "kind", "subject"], name="uptime_is_summed_up_once")]
