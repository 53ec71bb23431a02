"""API keys with their former secrets, what each spent on each day, and the budgets of runs and months."""

from datetime import datetime
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from billing import money
from billing.models import Account, DataDemands, User
from gateway_project import identifiers
from gateway_project.cells.directory import ReferredModel
from gateway_project.cells.models import Reference
from gateway_project.db.constraints import must_hold
from gateway_project.db.owned import DELETED, Kept, OwnedModel
from gateway_project.text import timestamps
from keys.spending_limit import HAS_NO_FLAWS, SpendingLimit, SpendingPeriod, SpendingType

RATE_MAX = 2**31 - 1  # of the columns
MODELS_MAX = 100
MODEL_CHARACTERS_MAX = 200  # of the column
TAGS_MAX = 10
TAG_CHARACTERS_MAX = 40


class ApiKey(DataDemands, ReferredModel):
    """A key: its account, its limits and whether it may be used. The secret is not stored."""

    kept = Kept("keys", "It is revoked, without its name and tags.")
    reference_kind = Reference.Kind.KEY
    id = models.CharField(primary_key=True, max_length=22, default=identifiers.short_uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="keys")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    last_four = models.CharField(max_length=4, editable=False, help_text="The end of the secret, to tell keys apart.")
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    paused_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Since when it is paused. Empty: it is not."
    )
    # Of each former secret that works: its digest, and until when (ISO 8601): FormerSecret in the row that admission reads.
    former_digests = models.JSONField(null=True, blank=True, editable=False)

    # All three empty: no limit.
    spending_limit_cents = models.PositiveBigIntegerField(null=True, blank=True)
    spending_type = models.CharField(max_length=10, choices=SpendingType.choices, null=True, blank=True)
    spending_period = models.CharField(max_length=10, choices=SpendingPeriod.choices, null=True, blank=True)

    # Both empty: no raise. Until then this is the limit instead; the type and period stay.
    raised_limit_cents = models.BigIntegerField(null=True, blank=True)
    raised_until = models.DateTimeField(null=True, blank=True)

    requests_per_minute = models.PositiveIntegerField(null=True, blank=True, help_text="Empty: the account's, if it has one.")
    tokens_per_minute = models.PositiveIntegerField(null=True, blank=True, help_text="Empty: the account's, if it has one.")
    requests_in_flight_max = models.PositiveIntegerField(
        null=True, blank=True, help_text="How many of its requests may run at a time. Empty: the deployment's maximum."
    )
    requests_full_at = models.DateTimeField(null=True, editable=False, help_text="When the whole allowance is back.")
    tokens_full_at = models.DateTimeField(null=True, editable=False, help_text="When the whole allowance is back.")
    tokens_owed = models.BigIntegerField(
        default=0, db_default=0, editable=False, help_text="Used beyond the allowance of a minute: paid back before it returns."
    )

    open_holds: int | None = None  # no column: the sum over its days, None where it was not read with the row

    allowed_models: ClassVar = ArrayField(
        models.CharField(max_length=200), null=True, blank=True, help_text="Model ids this key may use. Empty: all."
    )
    tags: ClassVar = ArrayField(
        models.CharField(max_length=TAG_CHARACTERS_MAX), null=True, blank=True, help_text="Labels, to find and group keys."
    )

    class Meta:
        verbose_name = "API key"
        indexes = [models.Index(fields=["last_four"], name="keys_by_last_four")]
        constraints = must_hold(
            a_limit_has_a_type_and_only_a_recurring_one_a_period=HAS_NO_FLAWS,
            a_limit_fits_in_nanodollars=Q(spending_limit_cents__isnull=True) | Q(spending_limit_cents__lte=money.CENTS_MAX),
            a_raise_is_above_the_limit_and_ends=Q(raised_limit_cents__isnull=True, raised_until__isnull=True)
            | Q(raised_limit_cents__isnull=False, raised_until__isnull=False, spending_limit_cents__isnull=False)
            & Q(raised_limit_cents__gt=F("spending_limit_cents"), raised_limit_cents__lte=money.CENTS_MAX),
            a_rate_is_at_least_one_a_minute=(Q(requests_per_minute__isnull=True) | Q(requests_per_minute__gte=1))
            & (Q(tokens_per_minute__isnull=True) | Q(tokens_per_minute__gte=1)),
            a_key_may_run_at_least_one_request=Q(requests_in_flight_max__isnull=True) | Q(requests_in_flight_max__gte=1),
        )
        permissions = [
            ("set_spending_limit", "Can set or clear a key's spending limit"),
            ("set_rates", "Can set how many requests and tokens a key may send"),
            ("revoke_apikey", "Can revoke a key"),
        ]

    def __str__(self) -> str:
        return f"{self.name} (...{self.last_four})"

    @property
    def spending_limit(self) -> SpendingLimit:
        return SpendingLimit(self.spending_limit_cents, self.spending_type, self.spending_period)

    @property
    def spending_limit_nanos(self) -> int | None:
        return None if self.spending_limit_cents is None else money.nanos(self.spending_limit_cents)

    def working_former_digests(self, now: datetime) -> dict[str, datetime]:
        """Return the digests of the former secrets that work at ``now``, with their ends."""
        ends = {digest: datetime.fromisoformat(end) for digest, end in (self.former_digests or {}).items()}
        return {digest: end for digest, end in ends.items() if end > now}

    def accepts(self, digest: str, now: datetime) -> bool:
        """Return whether the secret with this digest works at ``now``: the key's own, or a former one that has not ended."""
        return digest == self.digest or digest in self.working_former_digests(now)


class FormerSecret(OwnedModel):
    """A secret of a key before a rotation. It works until its end, and is kept to find the key if it leaks."""

    kept = Kept("former_secrets", "It stays: a digest of a secret that is refused.")
    key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="former_secrets")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    last_four = models.CharField(max_length=4, editable=False, db_index=True)
    rotated_at = models.DateTimeField(db_default=Now(), editable=False)
    ends_at = models.DateTimeField(help_text="Until when it works.")

    def __str__(self) -> str:
        return f"...{self.last_four}, until {timestamps.in_words(self.ends_at)}"


class ManagementKey(ReferredModel):
    """A key that manages its account's keys at /api/keys, and cannot use models. Only owners make one."""

    kept = Kept("management_keys", "It is revoked, without its name.")
    reference_kind = Reference.Kind.MANAGEMENT_KEY
    id = models.CharField(primary_key=True, max_length=22, default=identifiers.short_uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="management_keys")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    last_four = models.CharField(max_length=4, editable=False)
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+", editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False, help_text="To the minute.")
    revoked_at = models.DateTimeField(null=True, editable=False)

    def __str__(self) -> str:
        return f"{self.name} (...{self.last_four})"


class ManagementReply(OwnedModel):
    """A reply to a POST under an Idempotency-Key, encrypted: it may show a secret."""

    kept = Kept("It may have a secret, and is kept for a day.", DELETED)
    management_key = models.ForeignKey(ManagementKey, on_delete=models.CASCADE, related_name="replies", db_index=False)
    idempotency_key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64, help_text="Of the request.")
    status = models.SmallIntegerField()
    sealed_body = models.TextField()
    at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        verbose_name_plural = "management replies"
        constraints = [
            models.UniqueConstraint(fields=["management_key", "idempotency_key"], name="a_management_request_has_one_reply")
        ]

    def __str__(self) -> str:
        return f"{self.status} to {self.management_key_id}"


class RefusalCount(OwnedModel):
    """How often a key was refused within one hour, by error and code."""

    kept = Kept("refusals", "It stays: numbers by code.")
    key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="refusal_counts", db_index=False)
    hour = models.DateTimeField(help_text="The hour's beginning, UTC.")
    status = models.SmallIntegerField()
    code = models.CharField(max_length=50)
    error = models.CharField(max_length=50, help_text="The class of the error, as the log names it.")
    number = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["key", "hour", "error", "code"], name="refusals_of_an_hour_are_counted_once")
        ]
        indexes = [models.Index(fields=["hour"], name="refusal_counts_by_hour")]

    def __str__(self) -> str:
        return f"{self.number} x {self.code} of {self.key_id}"


class RefusedRequest(OwnedModel):
    """One of the last refusals of a key. The message is empty where it quotes the request."""

    kept = Kept("refused_requests", DELETED)
    key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="refused_requests", db_index=False)
    at = models.DateTimeField()
    request_id = models.CharField(max_length=40, unique=True, db_collation="C")
    status = models.SmallIntegerField()
    code = models.CharField(max_length=50)
    error = models.CharField(max_length=50, help_text="The class of the error, as the log names it.")
    message = models.CharField(max_length=500)
    model = models.CharField(max_length=200, help_text="What the request named. Empty: it was refused before that was read.")

    class Meta:
        indexes = [
            models.Index(fields=["key", "-at"], name="refused_requests_by_key"),
            models.Index(fields=["at"], name="refused_requests_by_time"),
        ]

    def __str__(self) -> str:
        return self.request_id


class SpendingDay(OwnedModel):
    """The sums of a key on one UTC day, that of the admission, and how many of its completions run."""

    kept = Kept("spending_days", "It stays: a sum of requests.")
    key = models.ForeignKey(ApiKey, on_delete=models.PROTECT, related_name="spending_days", db_index=False)
    day = models.DateField()
    spent_nanos = models.BigIntegerField(default=0)
    held_nanos = models.BigIntegerField(default=0)
    provider_spent_nanos = models.BigIntegerField(default=0, db_default=0)  # of own keys' providers: limits count it, too
    provider_held_nanos = models.BigIntegerField(default=0, db_default=0)
    open_holds = models.IntegerField(default=0, db_default=0)  # how many of its completions run
    completions = models.BigIntegerField(default=0)
    prompt_tokens = models.BigIntegerField(default=0)
    completion_tokens = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            *must_hold(
                a_day_is_never_negative=Q(spent_nanos__gte=0, held_nanos__gte=0),
                a_days_open_holds_are_never_negative=Q(open_holds__gte=0),
                a_days_provider_prices_are_never_negative=Q(provider_spent_nanos__gte=0, provider_held_nanos__gte=0),
            ),
            models.UniqueConstraint(fields=["key", "day"], name="a_key_has_one_row_a_day"),
        ]

    def __str__(self) -> str:
        return f"{self.key_id} on {self.day}"


class Run(OwnedModel):
    """The limits of the requests of a key that name one ``x-gateway-run``, with what they hold and spent.

    Its first request decided the budget and the deadline. Written under the lock of the account. Nothing else here is called a
    run, but in ``completions.charging`` the earlier and later tries of one request under its Idempotency-Key are.
    """

    NAME_CHARACTERS_MAX = 100

    kept = Kept("runs", "It stays: a sum of requests, under the id that the caller chose.")
    key = models.ForeignKey(ApiKey, on_delete=models.PROTECT, related_name="runs", db_index=False)
    name = models.CharField(max_length=NAME_CHARACTERS_MAX, db_collation="C", help_text="The caller's id of it.")
    budget_nanos = models.BigIntegerField()
    deadline = models.DateTimeField(null=True, help_text="From then on its requests are refused. Empty: it has none.")
    spent_nanos = models.BigIntegerField(default=0)
    held_nanos = models.BigIntegerField(default=0)
    requests = models.BigIntegerField(default=0, help_text="Those that were admitted.")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        default_permissions = ()
        constraints = [
            *must_hold(
                a_run_stays_within_its_budget=Q(spent_nanos__gte=0, held_nanos__gte=0)
                & Q(budget_nanos__gte=F("spent_nanos") + F("held_nanos")),
            ),
            models.UniqueConstraint(fields=["key", "name"], name="a_key_has_one_run_of_a_name"),
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.key_id}"

    @property
    def left_nanos(self) -> int:
        """The money that a new request may hold."""
        return self.budget_nanos - self.spent_nanos - self.held_nanos


class Budget(OwnedModel):
    """The budget of an account, its keys with a tag, or the keys that one member created, for each calendar month, UTC.

    ``budgets.monthly`` makes, changes and ends one, under the lock of the account. One that has ended stays, for its months.
    """

    class Scope(models.TextChoices):
        ACCOUNT = "ACCOUNT", "the account"
        TAG = "TAG", "keys with a tag"
        MEMBER = "MEMBER", "keys that a member created"

    class Action(models.TextChoices):
        WARN = "WARN", "only warn"
        STOP = "STOP", "refuse requests"

    kept = Kept("budgets", "It ends, without its tag.")
    id = models.CharField(primary_key=True, max_length=22, default=identifiers.short_uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="budgets", db_index=False)
    scope = models.CharField(max_length=10, choices=Scope.choices)
    tag = models.CharField(max_length=TAG_CHARACTERS_MAX, blank=True, help_text="Of keys. Empty: it is not about a tag.")
    member = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+", help_text="Who created the keys.")
    amount_cents = models.BigIntegerField()
    action = models.CharField(max_length=10, choices=Action.choices)
    created_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True, help_text="Since when nothing counts on it. Empty: it is in force.")

    class Meta:
        default_permissions = ()
        constraints = [
            *must_hold(
                a_budget_is_of_one_scope=Q(scope="ACCOUNT", tag="", member=None)
                | Q(scope="TAG", member=None) & ~Q(tag="")
                | Q(scope="MEMBER", tag="", member__isnull=False),
                a_budget_is_a_positive_amount=Q(amount_cents__gte=1, amount_cents__lte=money.CENTS_MAX),
                a_budget_warns_or_stops=Q(action__in=("WARN", "STOP")),
            ),
            models.UniqueConstraint(
                fields=["account", "scope", "tag", "member"],
                condition=Q(ended_at__isnull=True),
                nulls_distinct=False,
                name="a_scope_has_one_budget",
            ),
        ]

    def __str__(self) -> str:
        of_what = self.tag or self.member or ""
        return f"{self.get_scope_display()} {of_what}".strip()


class BudgetMonth(OwnedModel):
    """The spending on a budget in one month, that of the admissions, and what running requests hold of it."""

    kept = Kept("budget_months", "It stays: a sum of requests.")
    budget = models.ForeignKey(Budget, on_delete=models.PROTECT, related_name="months", db_index=False)
    month = models.DateField(help_text="Its first day.")
    amount_cents = models.BigIntegerField(help_text="The budget's, as it was last in this month.")
    spent_nanos = models.BigIntegerField(default=0)
    held_nanos = models.BigIntegerField(default=0)

    class Meta:
        default_permissions = ()
        constraints = [
            *must_hold(
                a_budgets_month_is_never_negative=Q(spent_nanos__gte=0, held_nanos__gte=0),
                a_budgets_month_begins_with_its_first_day=Q(month__day=1),
            ),
            models.UniqueConstraint(fields=["budget", "month"], name="a_budget_has_one_row_a_month"),
        ]

    def __str__(self) -> str:
        return f"{self.budget_id} in {self.month:%Y-%m}"
