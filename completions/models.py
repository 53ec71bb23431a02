"""The catalog (providers, models, dated prices, routes) and the record of every completion."""

import os
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Prefetch, Q
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.functional import cached_property

from billing.models import IS_APPROVED_BY_ANOTHER, IS_DECIDED_WHOLLY, Account, WaitingAct
from completions.pricing.rates import RateSheet
from completions.pricing.usage import Usage
from gateway_project import identifiers, secretbox
from gateway_project.db.owned import Kept, OwnedModel
from keys.models import ApiKey


class Provider(models.Model):
    """A company or a server that runs models. Its key is in an environment variable, stored encrypted, or not needed."""

    KEY_REFUSAL_CHARACTERS_MAX: ClassVar[int] = 400

    class Kind(models.TextChoices):
        OPENAI = "openai", "OpenAI-compatible"
        ANTHROPIC = "anthropic", "Anthropic Messages"
        GEMINI = "gemini", "Gemini generateContent"
        ECHO = "echo", "built-in echo"

    class Sync(models.TextChoices):
        OFF = "off", "not read"
        PROPOSE = "propose", "proposes changes"
        APPLY = "apply", "applies small changes, proposes the others"

    slug = models.SlugField(primary_key=True, max_length=50)
    kind = models.CharField(max_length=10, choices=Kind.choices)
    base_url = models.URLField(blank=True)
    api_key_env = models.CharField(max_length=100, blank=True, help_text="The environment variable that holds the key.")
    sealed_api_key = models.TextField(blank=True, editable=False, help_text="The key, encrypted at rest.")
    is_enabled = models.BooleanField(default=True)
    connect_seconds = models.PositiveIntegerField(null=True, blank=True, help_text="Empty: as the gateway's settings say.")
    first_byte_seconds = models.PositiveIntegerField(null=True, blank=True, help_text="Empty: as the settings say.")
    idle_seconds = models.PositiveIntegerField(null=True, blank=True, help_text="Empty: as the settings say.")
    total_seconds = models.PositiveIntegerField(null=True, blank=True, help_text="Empty, or more: as the settings say.")
    cancels = models.BooleanField(
        default=False,
        db_default=False,
        help_text="It stops charging when the connection is closed, as its documentation says. Then a client's departure "
        "ends a request, except where the model may reason. Otherwise every reply is read to its end.",
    )
    passes_unknown_fields = models.BooleanField(
        default=False,
        db_default=False,
        help_text="A server of our own, in OpenAI's format: it gets all fields of a request, also unknown ones.",
    )
    sync = models.CharField(
        max_length=10, choices=Sync.choices, default=Sync.OFF, help_text="Its own list of models, once a day."
    )
    # Written by relay.provider_keys. They say nothing once the key or the address is another than the one that was refused.
    refused_key = models.CharField(
        max_length=64, blank=True, default="", db_default="", editable=False, help_text="Fingerprint of the refused key."
    )
    key_refused_at = models.DateTimeField(null=True, editable=False, help_text="The last time.")
    key_refusal = models.CharField(
        max_length=KEY_REFUSAL_CHARACTERS_MAX,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="The provider's status and words.",
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=(Q(connect_seconds__isnull=True) | Q(connect_seconds__gte=1))
                & (Q(first_byte_seconds__isnull=True) | Q(first_byte_seconds__gte=1))
                & (Q(idle_seconds__isnull=True) | Q(idle_seconds__gte=1))
                & (Q(total_seconds__isnull=True) | Q(total_seconds__gte=1)),
                name="a_provider_has_at_least_a_second",
            ),
        ]

    def __str__(self) -> str:
        return self.slug

    def seal_api_key(self, api_key: str) -> None:
        """Store the key, encrypted. The text is useless when it is copied to another provider."""
        self.sealed_api_key = secretbox.encrypt(api_key, purpose=f"provider:{self.pk}")

    def read_api_key(self) -> str:
        """Return the key to send to the provider, decrypted; empty if it has none. Raises secretbox.Unreadable."""
        if self.sealed_api_key:
            return secretbox.decrypt(self.sealed_api_key, purpose=f"provider:{self.pk}")
        return self.key_in_environment

    @property
    def is_key_readable(self) -> bool:
        """False when the stored key was encrypted with a key that is not in ENCRYPTION_KEYS, or for another provider."""
        try:
            self.read_api_key()
        except secretbox.Unreadable:
            return False
        return True

    @property
    def key_in_environment(self) -> str:
        """The key from the environment; empty if no variable is named, or if the variable is unset or blank."""
        return os.environ.get(self.api_key_env, "").strip() if self.api_key_env else ""

    @property
    def is_available(self) -> bool:
        """Whether completions are sent to it: it is configured, and it did not refuse the key that it has now."""
        return self.is_configured and not self.is_key_refused

    @property
    def is_configured(self) -> bool:
        """Whether completions can be sent to it: it is enabled, of a kind with an adapter, and has its key or needs none."""
        return self.is_enabled and self.kind in Provider.Kind.values and self._has_key

    @property
    def is_key_refused(self) -> bool:
        return bool(self.refused_key) and self.refused_key == self.key_fingerprint

    @property
    def key_fingerprint(self) -> str:
        """A keyed hash of address and key. It changes with either and reveals neither."""
        parts = (self.kind, self.base_url, self.sealed_api_key or self.key_in_environment)
        return salted_hmac("completions.Provider.key_fingerprint", "\x00".join(parts), algorithm="sha256").hexdigest()

    @property
    def _has_key(self) -> bool:
        if self.sealed_api_key:
            return self.is_key_readable
        return bool(not self.api_key_env or self.key_in_environment)


class Category(models.TextChoices):
    GENERAL = "GENERAL"
    CODING = "CODING"
    MATH = "MATH"
    REASONING = "REASONING"
    CREATIVE = "CREATIVE"
    OPEN_SOURCE = "OPEN_SOURCE"


class ModelKind(models.TextChoices):
    """What a model answers with. Each kind has endpoints of its own."""

    CHAT = "chat", "writes text"
    EMBEDDING = "embedding", "makes embeddings of text"


class Obstacle(StrEnum):
    """A reason why a model is not available, as a predicate: "<model> is disabled"."""

    DISABLED = "is disabled"
    UNPRICED = "has no price in force"
    UNROUTED = "has no enabled route"
    UNREACHABLE = "has no route to a provider that is enabled, supported and has a key that it accepts"


class LanguageModelQuerySet(models.QuerySet["LanguageModel"]):
    def of_chat(self) -> Self:
        """Those that write text: only these are ranked, and only these may an alias stand for."""
        return self.filter(kind=ModelKind.CHAT)

    def with_price_and_routes(self) -> Self:
        """Prefetch ``prices_in_force`` (at most one) and ``enabled_routes`` with their providers.

        A route's ``open_time`` is how long a circuit for it stays open in some process, by the database's clock, which all
        workers share; negative when that time is over. Its ``refused_time`` is how long ago its provider last refused a key.
        """
        times = {"open_time": F("rests_until") - Now(), "refused_time": Now() - F("provider__key_refused_at")}
        routes = Route.objects.filter(is_enabled=True).select_related("provider").annotate(**times)
        return self.prefetch_related(
            Prefetch("prices", queryset=Price.objects.in_force(), to_attr="prices_in_force"),
            Prefetch("routes", queryset=routes, to_attr="enabled_routes"),
        )


class LanguageModel(models.Model):
    """A model under the id that callers send. ``is_available`` is the only rule for whether it is served."""

    prices_in_force: list["Price"]
    enabled_routes: list["Route"]

    id = models.CharField(primary_key=True, max_length=200)
    name = models.CharField(max_length=200)
    maker = models.CharField(max_length=100, help_text="Who made it.")
    kind = models.CharField(max_length=10, choices=ModelKind.choices, default=ModelKind.CHAT, db_default=ModelKind.CHAT)
    category = models.CharField(max_length=20, choices=Category.choices, default=Category.GENERAL)
    context_window = models.PositiveIntegerField()
    max_output_tokens = models.PositiveIntegerField()
    image_support = models.BooleanField(default=False)
    image_tokens_max = models.PositiveIntegerField(
        default=6_000, help_text="As how many tokens the provider may count one image. Holds pay for so many."
    )
    function_calling = models.BooleanField(default=False)
    reasoning = models.BooleanField(
        null=True,
        blank=True,
        help_text="Whether it generates reasoning that its replies do not show. Unknown: only when a request asks for it.",
    )
    requests_in_flight_max = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="How many requests for it each key may have in flight. Empty: as many as for all models together.",
    )
    commercial_use = models.BooleanField(default=False)
    license = models.CharField(max_length=100, null=True, blank=True)
    is_enabled = models.BooleanField(default=True)
    ends_on = models.DateField(
        null=True,
        blank=True,
        help_text="From this day on its providers may not serve it. Whoever used it is told.",
    )
    successor = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
        help_text="The model to use instead. Whoever used this one is told.",
    )
    end_set_at = models.DateTimeField(null=True, editable=False, help_text="When a trigger saw these two change.")
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
            models.CheckConstraint(
                condition=Q(requests_in_flight_max__isnull=True) | Q(requests_in_flight_max__gte=1),
                name="a_model_may_have_requests_in_flight",
            ),
        ]

    def __str__(self) -> str:
        return self.id

    @property
    def is_available(self) -> bool:
        """Whether a completion that names the model is served. Needs ``with_price_and_routes``, as ``obstacles`` does."""
        return next(self.obstacles(), None) is None

    def obstacles(self) -> Iterator[Obstacle]:
        """Yield every reason why the model is not available."""
        if not self.is_enabled:
            yield Obstacle.DISABLED
        if not self.prices_in_force:
            yield Obstacle.UNPRICED
        if not self.enabled_routes:
            yield Obstacle.UNROUTED
        elif not any(route.provider.is_available for route in self.enabled_routes):
            yield Obstacle.UNREACHABLE


class TokenPrices(models.Model):
    """A price: JSON of its rates, each a meter, a service tier, a threshold of the prompt and nanodollars.

    They are in one row, so that a rate cannot join a price that something was charged at. The database checks their form.
    """

    rates = models.JSONField()

    class Meta:
        abstract = True

    @cached_property
    def sheet(self) -> RateSheet:
        return RateSheet.of_rows(self.rates)

    @property
    def input_nanos(self) -> int:
        return self.sheet.rate("input")

    @property
    def output_nanos(self) -> int:
        return self.sheet.rate("output")


_IS_FREE = RawSQL(
    """NOT completions_price.rates @? '$[*] ? (@.tier == "" && @.nanos > 0 && (@.meter == "input" || @.meter == "output"))'""",
    [],
    models.BooleanField(),
)


class PriceQuerySet(models.QuerySet["Price"]):
    def free(self) -> Self:
        """Those whose tokens cost nothing."""
        return self.filter(_IS_FREE)

    def in_force(self) -> Self:
        """The price of each model that took effect last, by the database's clock."""
        begun = self.filter(effective_from__lte=Now())
        return begun.order_by("model_id", "-effective_from").distinct("model_id")

    def at(self, moment: datetime | None = None) -> "Price | None":
        """Of one model: the price in force at a time, or now."""
        return self.filter(effective_from__lte=moment or Now()).order_by("-effective_from").first()


class Price(TokenPrices):
    """A model's price from ``effective_from`` on.

    A completion is charged at the price that was in force at its admission.
    """

    model = models.ForeignKey(LanguageModel, on_delete=models.PROTECT, related_name="prices", db_index=False)
    effective_from = models.DateTimeField(db_default=Now())
    objects = PriceQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["model", "effective_from"], name="a_model_has_one_price_at_a_time"),
        ]

    def __str__(self) -> str:
        return f"{self.model_id} from {self.effective_from:%Y-%m-%d}"


class PriceRequest(TokenPrices, WaitingAct):
    """A price that somebody wants to set, which waits for a second person. Written by ``catalog.price_requests``."""

    reason = models.CharField(max_length=500, blank=True)
    model = models.ForeignKey(LanguageModel, on_delete=models.PROTECT, related_name="+")
    before = models.ForeignKey(
        Price, null=True, on_delete=models.PROTECT, related_name="+", help_text="In force then, as its author saw it."
    )
    starts_at = models.DateTimeField(null=True, help_text="Empty: when it is approved.")
    price = models.ForeignKey(
        Price,
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
        help_text="What was set. It may be withdrawn until it begins.",
    )

    class Meta:
        default_permissions = ("view",)
        permissions = [("approve_price", "Can approve a price that somebody else asks for")]
        constraints = [
            models.CheckConstraint(condition=IS_APPROVED_BY_ANOTHER, name="nobody_approves_a_price_they_asked_for"),
            models.CheckConstraint(condition=IS_DECIDED_WHOLLY, name="a_price_waits_until_it_is_decided"),
            models.CheckConstraint(
                condition=Q(decision="APPROVED", price__isnull=False) | (~Q(decision="APPROVED") & Q(price__isnull=True)),
                name="only_an_approved_price_is_set",
            ),
            models.UniqueConstraint(fields=["model"], condition=Q(decision=""), name="a_price_is_asked_for_once_at_a_time"),
        ]

    def __str__(self) -> str:
        return f"price of {self.model_id}"

    @property
    def what(self) -> str:
        return "price"

    @property
    def target(self) -> LanguageModel:
        return self.model


class ProviderPrice(TokenPrices):
    """What a provider charges the gateway for a model from a UTC day on. It moves no money: margins are computed from it."""

    provider = models.ForeignKey(Provider, on_delete=models.CASCADE, related_name="prices")
    model = models.ForeignKey(LanguageModel, on_delete=models.CASCADE, related_name="provider_prices", db_index=False)
    since = models.DateField(help_text="The first UTC day of this price. A past day counts, too.")

    class Meta:
        ordering = ["model", "provider", "-since"]
        constraints = [
            models.UniqueConstraint(fields=["model", "provider", "since"], name="a_provider_has_one_price_at_a_time"),
        ]

    def __str__(self) -> str:
        return f"{self.model_id} at {self.provider_id} since {self.since:%Y-%m-%d}"


class ProviderDay(OwnedModel):
    """What was charged on a UTC day for a model at a provider, and its tokens. ``usage.sums`` adds them; kept for ever."""

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
            ),
        ]
        verbose_name = "margin"

    def __str__(self) -> str:
        return f"{self.model_id} at {self.provider_id} on {self.day:%Y-%m-%d}"


class Route(models.Model):
    """A provider that serves a model, and the model's name there. The lowest priority number is tried first.

    Routes of the same priority share the requests in proportion to their weights.
    """

    UNRATED_TIER_CHARACTERS_MAX = 40

    class Api(models.TextChoices):
        CHAT = "chat", "Chat completions"
        RESPONSES = "responses", "Responses"

    model = models.ForeignKey(LanguageModel, on_delete=models.CASCADE, related_name="routes", db_index=False)
    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="routes")
    upstream_model = models.CharField(max_length=200)
    api = models.CharField(
        "API",
        max_length=10,
        choices=Api.choices,
        default=Api.CHAT,
        db_default=Api.CHAT,
        help_text="Which API of an OpenAI-compatible provider is asked. With Responses, reasoning continues across turns.",
    )
    priority = models.PositiveSmallIntegerField(default=1)
    weight = models.PositiveSmallIntegerField(default=1)
    is_enabled = models.BooleanField(default=True)
    rules = models.JSONField(
        default=dict,
        db_default={},
        editable=False,
        help_text="What a catalog file says that the model takes there, instead of the gateway's own rules.",
    )
    # The column keeps its first name: to rename it would need two releases.
    rests_until = models.DateTimeField(
        "circuit open until",
        null=True,
        editable=False,
        help_text="The route failed for some process, which asks it again then. To other processes this is a hint.",
    )
    unrated_tier = models.CharField(
        max_length=UNRATED_TIER_CHARACTERS_MAX,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="The last service tier that it served, and that the price had no rates for.",
    )
    unrated_tier_at = models.DateTimeField(null=True, editable=False, help_text="When it did so.")

    class Meta:
        ordering = ["priority", "id"]
        constraints = [
            models.UniqueConstraint(fields=["model", "provider", "upstream_model"], name="a_route_is_declared_once"),
            models.CheckConstraint(condition=Q(weight__gte=1), name="a_route_has_a_weight"),
        ]

    def __str__(self) -> str:
        return f"{self.model_id} at {self.provider_id}"

    @property
    def adapter(self) -> str:
        """The name of the adapter that asks the provider: its kind, for some models with the name of one of its APIs."""
        kind = self.provider.kind
        if self.model.kind == ModelKind.EMBEDDING:
            return f"{kind}-embeddings"
        return "openai-responses" if (kind, self.api) == (Provider.Kind.OPENAI, Route.Api.RESPONSES) else kind


class UpstreamList(models.Model):
    """The last accepted list of models of a provider, and the outcome of the last request for it."""

    provider = models.OneToOneField(Provider, on_delete=models.CASCADE, primary_key=True, related_name="upstream_list")
    url = models.CharField(max_length=250, help_text="Where it is from: that of another address says nothing.")
    etag = models.CharField(max_length=200, blank=True)
    body = models.TextField(blank=True, help_text="As it came. Empty: none was believed so far.")
    confirmed_at = models.DateTimeField(null=True)
    failure = models.CharField(max_length=200, blank=True, help_text="Why there was none the last time.")
    retry_at = models.DateTimeField(null=True, help_text="The provider wants to be left alone until then.")

    def __str__(self) -> str:
        return f"list of {self.provider_id}"


class CatalogProposal(models.Model):
    """A difference between a provider's list and the catalog. Prices are text, in US dollars per million tokens."""

    class Kind(models.TextChoices):
        NEW_MODEL = "new_model", "new model"
        PRICE = "price", "price"
        LIMITS = "limits", "context window and output"
        CAPABILITIES = "capabilities", "capabilities"
        GONE = "gone", "no longer listed"

    class State(models.TextChoices):
        PENDING = "pending", "waits"
        APPLIED = "applied", "applied"
        DISMISSED = "dismissed", "dismissed"
        SUPERSEDED = "superseded", "outdated"

    provider = models.ForeignKey(Provider, on_delete=models.CASCADE, related_name="proposals", db_index=False)
    upstream_model = models.CharField(max_length=200)
    model = models.ForeignKey(
        LanguageModel, on_delete=models.CASCADE, null=True, related_name="proposals", help_text="Empty: it is not offered yet."
    )
    kind = models.CharField(max_length=20, choices=Kind.choices)
    old = models.JSONField()
    new = models.JSONField()
    state = models.CharField(max_length=20, choices=State.choices, default=State.PENDING)
    created_at = models.DateTimeField(db_default=Now())
    decided_at = models.DateTimeField(null=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+", help_text="Empty: the rule."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "kind", "upstream_model", "model"],
                condition=Q(state="pending"),
                nulls_distinct=False,
                name="a_difference_is_proposed_once",
            ),
            models.CheckConstraint(
                condition=Q(state="pending", decided_at__isnull=True) | ~Q(state="pending") & Q(decided_at__isnull=False),
                name="a_proposal_waits_until_it_is_decided",
            ),
            models.CheckConstraint(
                condition=Q(kind="new_model") | Q(model__isnull=False), name="a_proposal_is_about_a_model_or_a_new_one"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} of {self.subject}"

    @property
    def subject(self) -> str:
        """The id of the model: ours, or the one that a new model would get."""
        return self.model_id or self.new.get("id") or self.upstream_model


class Completion(OwnedModel):
    """One admitted request, under the id that the caller sees. Its hold and its ledger entry have the same id."""

    kept = Kept("requests", "It stays: what was charged, and for what.")

    class Settlement(models.TextChoices):
        REPORTED = "reported", "the upstream's own usage"
        ESTIMATED = "estimated", "complete, but the upstream reported no usage"
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
    is_stream = models.BooleanField()
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
    relayed_bytes = models.BigIntegerField(null=True, help_text="Checkpoint. Empty: the upstream had not begun.")
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
    attempts = models.PositiveSmallIntegerField(null=True, help_text="How many times an upstream was asked.")
    first_token_ms = models.PositiveIntegerField(
        null=True, help_text="Of a stream: from asking the upstream that answered to its first words."
    )
    streamed_ms = models.PositiveIntegerField(null=True, help_text="From the first words to the last ones.")
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
    def usage(self) -> Usage:
        """What was used, as the row says it."""
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

    def __str__(self) -> str:
        return f"{self.streams} after {self.milliseconds} ms, {self.hour:%Y-%m-%d %H:%M} UTC"


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

    def __str__(self) -> str:
        return f"{self.key_id} with {self.model_id}, {self.hour:%Y-%m-%d %H:%M} UTC"


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

    def __str__(self) -> str:
        return f"{self.name}: {self.value}, {self.hour:%Y-%m-%d %H:%M} UTC"


class LabelDay(LabelSums):
    """Of the UTC days before."""

    day = models.DateField()

    class Meta(LabelSums.Meta):
        constraints = [models.UniqueConstraint(fields=["account", "name", "day", "value"], name="labels_are_in_their_day_once")]

    def __str__(self) -> str:
        return f"{self.name}: {self.value}, {self.day}"


class UsageMark(OwnedModel):
    """How far the usage of an account is summed up: by the seq of its ledger; of what has no entry, by the time of its end."""

    kept = Kept("It says how far requests are summed up.", "It stays: a time.")
    account = models.OneToOneField(Account, on_delete=models.PROTECT, primary_key=True, related_name="+")
    last_seq = models.BigIntegerField(default=0, db_default=0)
    failures_until = models.DateTimeField(null=True, help_text="Empty: none was summed up.")

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.account_id} to {self.last_seq}"


class RoutableAlias(models.Model):
    """An id that callers may send instead of a model's: it selects the first available model of ``model_ids``.

    An id that ends in "@" and a day is the alias as it was on that day.
    The rankings app writes these rows; completions only read them.
    """

    id = models.CharField(primary_key=True, max_length=200)
    model_ids: ClassVar = ArrayField(models.CharField(max_length=200), help_text="The best first.")
    qualities: ClassVar = ArrayField(
        models.FloatField(null=True), default=list, db_default=[], help_text="0 to 100, of each. Empty: never tested."
    )
    ranked_on = models.DateField(null=True, help_text="The day of the ranking, in UTC.")
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "routable aliases"

    def __str__(self) -> str:
        return self.id


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
    """A response that later requests of its account may go on from, encrypted: the items of its input and of its output, and
    the reply without these.

    ``previous_id`` is the response that it went on from, which may be deleted. Until the settlement of its completion,
    ``stored_bytes`` is 0, and nobody reads the row, unless it runs in the background.
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
                fields=["account", "expires_at", "completion"],
                condition=Q(stored_bytes__gt=0),
                name="stored_responses_by_age",
            ),
            models.Index(
                fields=["account", "expires_at", "completion"],
                condition=Q(stored_bytes=0),
                name="unreplied_responses_by_age",
            ),
        ]

    def __str__(self) -> str:
        return self.completion_id


class UptimeSums(OwnedModel):
    """How many requests for a model, or attempts at a provider, were answered in one hour or on one UTC day.

    Only ``completions.statistics.uptime`` writes it.
    """

    is_day = models.BooleanField()
    since = models.DateTimeField()
    kind = models.CharField(max_length=10, db_collation="C", help_text="model or provider.")
    subject = models.CharField(max_length=200, db_collation="C", help_text="The id of the model, or the slug of the provider.")
    answered = models.BigIntegerField()
    failed = models.BigIntegerField()

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["is_day", "since", "kind", "subject"], name="uptime_is_summed_up_once"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}, {self.since:%Y-%m-%d %H:%M} UTC"


class Incident(models.Model):
    """Something that does not work, or will not for a while, in the words of staff. The status page and its feed show it."""

    class Impact(models.TextChoices):
        MINOR = "minor", "Some requests are affected"
        MAJOR = "major", "Most requests are affected"
        MAINTENANCE = "maintenance", "Planned maintenance"

    title = models.CharField(max_length=200, help_text="For example, OpenAI models answer slowly.")
    impact = models.CharField(max_length=20, choices=Impact.choices, default=Impact.MINOR)
    began_at = models.DateTimeField("began at (UTC)", default=timezone.now)
    ended_at = models.DateTimeField("ended at (UTC)", null=True, blank=True, help_text="Leave empty while it lasts.")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True) | Q(ended_at__gte=F("began_at")), name="an_incident_ends_after_it_began"
            ),
        ]

    def __str__(self) -> str:
        return self.title


class IncidentUpdate(models.Model):
    """What staff know of an incident at some moment."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="updates")
    at = models.DateTimeField("at (UTC)", default=timezone.now)
    text = models.TextField(help_text="Everybody can read it. For example, We send requests to other providers.")

    class Meta:
        ordering = ["-at", "-id"]
        verbose_name = "update"

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} UTC"
