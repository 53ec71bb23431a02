"""The catalogue - providers, models, dated prices, routes - and the record of every completion."""

from typing import Self

from django.db import models
from django.db.models import F, Prefetch, Q
from django.db.models.functions import Now

from billing.models import Account
from keys.models import ApiKey


class Provider(models.Model):
    """Somebody who runs models. Its key is named by environment variable, or kept encrypted, or not needed."""

    class Kind(models.TextChoices):
        OPENAI = "openai", "OpenAI-compatible"
        ANTHROPIC = "anthropic", "Anthropic Messages"
        GEMINI = "gemini", "Gemini generateContent"
        ECHO = "echo", "built-in echo"

    slug = models.SlugField(primary_key=True, max_length=50)
    kind = models.CharField(max_length=10, choices=Kind.choices)
    base_url = models.URLField(blank=True)
    api_key_env = models.CharField(max_length=100, blank=True, help_text="The environment variable that holds the key.")
    sealed_api_key = models.TextField(blank=True, editable=False, help_text="The key, encrypted at rest.")
    is_enabled = models.BooleanField(default=True)

    def __str__(self) -> str:
        return self.slug


class Category(models.TextChoices):
    GENERAL = "GENERAL"
    CODING = "CODING"
    MATH = "MATH"
    REASONING = "REASONING"
    CREATIVE = "CREATIVE"
    OPEN_SOURCE = "OPEN_SOURCE"


class LanguageModelQuerySet(models.QuerySet["LanguageModel"]):
    def with_terms(self) -> Self:
        """Each with ``prices_in_force``, which are one or none, and ``enabled_routes`` with their providers."""
        return self.prefetch_related(
            Prefetch("prices", queryset=Price.objects.in_force(), to_attr="prices_in_force"),
            Prefetch(
                "routes", queryset=Route.objects.filter(is_enabled=True).select_related("provider"), to_attr="enabled_routes"
            ),
        )


class LanguageModel(models.Model):
    """A model under the id that callers send. ``catalog.obstacles`` says when it is served."""

    prices_in_force: list["Price"]
    enabled_routes: list["Route"]

    id = models.CharField(primary_key=True, max_length=200)
    name = models.CharField(max_length=200)
    maker = models.CharField(max_length=100, help_text="Who made it.")
    category = models.CharField(max_length=20, choices=Category.choices, default=Category.GENERAL)
    context_window = models.PositiveIntegerField()
    max_output_tokens = models.PositiveIntegerField()
    image_support = models.BooleanField(default=False)
    function_calling = models.BooleanField(default=False)
    commercial_use = models.BooleanField(default=False)
    license = models.CharField(max_length=100, null=True, blank=True)
    is_enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = LanguageModelQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(context_window__gte=1, max_output_tokens__gte=1), name="a_model_reads_and_writes_something"
            ),
            models.CheckConstraint(
                condition=Q(max_output_tokens__lte=F("context_window")), name="a_model_writes_within_its_context_window"
            ),
        ]

    def __str__(self) -> str:
        return self.id


class PriceQuerySet(models.QuerySet["Price"]):
    def in_force(self) -> Self:
        """The latest of each model that has begun, by the database's clock."""
        begun = self.filter(effective_from__lte=Now())
        return begun.order_by("model_id", "-effective_from").distinct("model_id")


class Price(models.Model):
    """What a model costs from a moment on, in nanodollars per million tokens. A completion keeps the price of its admission."""

    model = models.ForeignKey(LanguageModel, on_delete=models.PROTECT, related_name="prices", db_index=False)
    effective_from = models.DateTimeField(db_default=Now())
    input_nanos = models.BigIntegerField()
    output_nanos = models.BigIntegerField()
    cached_input_nanos = models.BigIntegerField(null=True, blank=True, help_text="Empty: as input.")
    cache_write_nanos = models.BigIntegerField(null=True, blank=True, help_text="Empty: as input.")

    objects = PriceQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["model", "effective_from"], name="a_model_has_one_price_at_a_time"),
            models.CheckConstraint(
                condition=Q(input_nanos__gte=0, output_nanos__gte=0)
                & (Q(cached_input_nanos__isnull=True) | Q(cached_input_nanos__gte=0))
                & (Q(cache_write_nanos__isnull=True) | Q(cache_write_nanos__gte=0)),
                name="a_price_is_never_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model_id} from {self.effective_from:%Y-%m-%d}"


class Route(models.Model):
    """One way to reach a model: a provider and the name it has there. The lowest priority number is tried first."""

    model = models.ForeignKey(LanguageModel, on_delete=models.CASCADE, related_name="routes", db_index=False)
    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="routes")
    upstream_model = models.CharField(max_length=200)
    priority = models.PositiveSmallIntegerField(default=1)
    is_enabled = models.BooleanField(default=True)

    class Meta:
        ordering = ["priority", "id"]
        constraints = [models.UniqueConstraint(fields=["model", "provider", "upstream_model"], name="a_route_is_declared_once")]

    def __str__(self) -> str:
        return f"{self.model_id} at {self.provider_id}"


class Completion(models.Model):
    """One admitted request, under the id its caller sees; the hold and the ledger entry have the same id."""

    class Settlement(models.TextChoices):
        REPORTED = "reported", "the upstream's own usage"
        ESTIMATED = "estimated", "complete, but the upstream reported no usage"
        PARTIAL = "partial", "cut short: the input and what was relayed"
        RECOVERED = "recovered", "its process died: the input and what it had noted as relayed"
        RELEASED = "released", "nothing was charged"
        EXPIRED = "expired", "nobody settled it in time; nothing was charged"

    id = models.CharField(primary_key=True, max_length=64)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="completions")
    key = models.ForeignKey(ApiKey, on_delete=models.PROTECT, related_name="completions")
    model = models.ForeignKey(LanguageModel, on_delete=models.PROTECT, related_name="+", db_index=False)
    price = models.ForeignKey(Price, on_delete=models.PROTECT, related_name="+", db_index=False)
    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="+", db_index=False)
    is_stream = models.BooleanField()
    spending_day = models.DateField(help_text="The UTC day of the key that it counts on.")
    counted_tokens = models.BigIntegerField(help_text="What the key's tokens per minute were charged at admission.")
    prompt_estimate = models.BigIntegerField(default=0, help_text="Tokens of the prompt, should nobody count them.")
    relayed_bytes = models.BigIntegerField(null=True, help_text="Checkpoint. Empty: the upstream had not begun.")
    checkpointed_at = models.DateTimeField(null=True)
    settlement = models.CharField(max_length=10, choices=Settlement.choices, null=True, help_text="Empty while it runs.")
    prompt_tokens = models.BigIntegerField(null=True)
    cached_tokens = models.BigIntegerField(null=True)
    completion_tokens = models.BigIntegerField(null=True)
    cost_nanos = models.BigIntegerField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(settlement__isnull=True, finished_at__isnull=True)
                | Q(settlement__isnull=False, finished_at__isnull=False),
                name="a_completion_is_finished_when_it_is_settled",
            ),
        ]

    def __str__(self) -> str:
        return self.id


class IdempotentRequest(models.Model):
    """What an account asked for under an Idempotency-Key, and the reply, encrypted, once there is one."""

    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="+", db_index=False)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64, help_text="SHA-256 of what was asked.")
    completion = models.OneToOneField(Completion, on_delete=models.PROTECT, related_name="+")
    is_stream = models.BooleanField()
    sealed_reply = models.TextField(null=True, editable=False)
    is_too_large = models.BooleanField(default=False, help_text="The reply was not kept.")
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["account", "key"], name="an_account_uses_a_key_for_one_request")]

    def __str__(self) -> str:
        return f"{self.key} of {self.account_id}"
