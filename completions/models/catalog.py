"""Providers and their lists, language models and their other names, dated prices, and routes."""

import json
import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar, Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F, Prefetch, Q
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.functional import cached_property

from billing.models import IS_APPROVED_BY_ANOTHER, IS_DECIDED_WHOLLY, REGION, WaitingAct
from completions.chat import Promise
from completions.pricing.rates import RateSheet
from gateway_project import secretbox
from gateway_project.db.constraints import must_hold


class DataPromise(models.Model):
    """A provider's treatment of the data of requests, as ``chat.Promise``. Unknown is no promise."""

    retention_days = models.PositiveIntegerField(
        "keeps prompts, days", null=True, blank=True, validators=[MaxValueValidator(36_500)], help_text="0: it keeps nothing."
    )
    trains = models.BooleanField("trains on prompts", null=True, blank=True)
    region = models.CharField(
        "processed in",
        max_length=10,
        blank=True,
        default="",
        db_default="",
        validators=[RegexValidator(rf"\A({REGION}|global)\Z", "Two lower-case letters, such as eu or us; or global.")],
        help_text="eu, or the code of a country, such as us; or global: anywhere.",
    )

    class Meta:
        abstract = True


class Provider(DataPromise):
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
    access = models.JSONField(
        default=dict,
        db_default={},
        editable=False,
        help_text="What a catalog file says in auth, headers, query, paths and platform.",
    )
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
    bill_accounts: ClassVar = ArrayField(
        models.CharField(max_length=500),
        verbose_name="ours on bills",
        default=list,
        blank=True,
        db_default=[],
        help_text="Keys, accounts or projects as its bills name them, with commas; none: lines that name none."
        " Lines of others are left out. Empty: all count.",
    )
    # Written by relay.route_health. They say nothing once the key or the address is another than the one that was refused.
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
        constraints = must_hold(
            a_provider_has_at_least_a_second=(Q(connect_seconds__isnull=True) | Q(connect_seconds__gte=1))
            & (Q(first_byte_seconds__isnull=True) | Q(first_byte_seconds__gte=1))
            & (Q(idle_seconds__isnull=True) | Q(idle_seconds__gte=1))
            & (Q(total_seconds__isnull=True) | Q(total_seconds__gte=1))
        )

    def __str__(self) -> str:
        return self.slug

    def seal_api_key(self, api_key: str) -> None:
        """Store the key, encrypted. The text is useless when it is copied to another provider."""
        self.sealed_api_key = secretbox.encrypt(api_key, purpose=self._key_purpose)

    @staticmethod
    def secret_type(access: Mapping[str, Any]) -> str:
        """Return the type of ``auth`` whose key is shown to its cloud alone; "" where the key itself goes to the provider."""
        kind: str = access.get("auth", {}).get("type", "")
        return kind if kind in ("google", "azure") else ""

    @property
    def _key_purpose(self) -> str:
        """A secret that is shown to a cloud alone is sealed for that, so that no older release sends it as an API key."""
        kind = self.secret_type(self.access)
        return f"provider:{self.pk}:{kind}" if kind else f"provider:{self.pk}"

    def read_api_key(self) -> str:
        """Return the key to send to the provider, decrypted; empty if it has none. Raises secretbox.Unreadable."""
        if self.sealed_api_key:
            return secretbox.decrypt(self.sealed_api_key, purpose=self._key_purpose)
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
        return self.is_enabled and self.kind in Provider.Kind.values and self.has_key

    @property
    def is_key_refused(self) -> bool:
        return bool(self.refused_key) and self.refused_key == self.key_fingerprint

    @property
    def lacked_credential(self) -> bool:
        """Whether some host had no credential to show within the last minutes. ``key_refusal`` says why."""
        is_recent = self.key_refused_at is not None and timezone.now() - self.key_refused_at < timedelta(minutes=3)
        return is_recent and not self.refused_key

    @property
    def key_fingerprint(self) -> str:
        """A keyed hash of address, access and key. It changes with each and reveals none."""
        parts = [self.kind, self.base_url, self.sealed_api_key or self.key_in_environment]
        parts += [json.dumps(self.access, sort_keys=True)] if self.access else []
        return salted_hmac("completions.Provider.key_fingerprint", "\x00".join(parts), algorithm="sha256").hexdigest()

    @property
    def takes_own_keys(self) -> bool:
        """Whether accounts may use keys of their own: not at a server of the operator, nor where a key is more than a text."""
        is_fetched = self.access.get("auth", {}).get("type") in ("google", "aws", "azure")
        is_text = self.kind != Provider.Kind.ECHO and not is_fetched
        return is_text and bool(self.sealed_api_key or self.api_key_env) and not self.passes_unknown_fields

    @property
    def has_key(self) -> bool:
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
    """The kind of a model's answers. Each kind has endpoints of its own."""

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
        null=True, blank=True, help_text="From this day on its providers may not serve it. Whoever used it is told."
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
        constraints = must_hold(
            a_model_reads_and_writes_something=Q(context_window__gte=1, max_output_tokens__gte=1),
            a_model_writes_within_its_context_window=Q(max_output_tokens__lte=F("context_window")),
            a_model_may_have_requests_in_flight=Q(requests_in_flight_max__isnull=True) | Q(requests_in_flight_max__gte=1),
        )

    def __str__(self) -> str:
        return self.id

    @property
    def is_available(self) -> bool:
        """Whether a completion that names the model is served. Needs ``with_price_and_routes``, as ``obstacles`` does."""
        return next(self.obstacles(), None) is None

    @property
    def is_echo(self) -> bool:
        """Whether the built-in echo alone answers. Needs ``with_price_and_routes``."""
        return {route.provider.kind for route in self.enabled_routes} == {Provider.Kind.ECHO}

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

    def before(self, moment: datetime) -> "Price | None":
        """Of one model: the price that holds until a time."""
        return self.filter(effective_from__lt=moment).order_by("-effective_from").first()

    def later(self) -> Self:
        """Those that have not begun, the next one first: no completion refers to them yet, so they can be withdrawn."""
        return self.filter(effective_from__gt=Now()).order_by("effective_from")


class Price(TokenPrices):
    """A model's price from ``effective_from`` on. A completion is charged at the one in force at its admission."""

    model = models.ForeignKey(LanguageModel, on_delete=models.PROTECT, related_name="prices", db_index=False)
    effective_from = models.DateTimeField(db_default=Now())
    objects = PriceQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["model", "effective_from"], name="a_model_has_one_price_at_a_time")]

    def __str__(self) -> str:
        return f"{self.model_id} from {self.effective_from:%Y-%m-%d}"


class PriceRequest(TokenPrices, WaitingAct):
    """A price that someone wants to set, which waits for a second person. Written by ``catalog.price_requests``."""

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
            *must_hold(
                nobody_approves_a_price_they_asked_for=IS_APPROVED_BY_ANOTHER,
                a_price_waits_until_it_is_decided=IS_DECIDED_WHOLLY,
                only_an_approved_price_is_set=Q(decision="APPROVED", price__isnull=False)
                | (~Q(decision="APPROVED") & Q(price__isnull=True)),
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
    """The price of a model at a provider from a UTC day on. It moves no money: margins are computed from it."""

    provider = models.ForeignKey(Provider, on_delete=models.CASCADE, related_name="prices")
    model = models.ForeignKey(LanguageModel, on_delete=models.CASCADE, related_name="provider_prices", db_index=False)
    since = models.DateField(help_text="The first UTC day of this price. A past day counts, too.")

    class Meta:
        ordering = ["model", "provider", "-since"]
        constraints = [
            models.UniqueConstraint(fields=["model", "provider", "since"], name="a_provider_has_one_price_at_a_time")
        ]

    def __str__(self) -> str:
        return f"{self.model_id} at {self.provider_id} since {self.since:%Y-%m-%d}"


class Route(DataPromise):
    """A provider that serves a model: the lowest priority number first, equal ones in proportion to their weights.

    Its own treatment of data stands instead of its provider's.
    """

    UNRATED_TIER_CHARACTERS_MAX = 40

    class Api(models.TextChoices):
        CHAT = "chat", "Chat completions"
        RESPONSES = "responses", "Responses"

    model = models.ForeignKey(LanguageModel, on_delete=models.CASCADE, related_name="routes", db_index=False)
    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="routes")
    upstream_model = models.CharField("model at the provider", max_length=200)
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
            *must_hold(a_route_has_a_weight=Q(weight__gte=1)),
            models.UniqueConstraint(fields=["model", "provider", "upstream_model"], name="a_route_is_declared_once"),
        ]

    def __str__(self) -> str:
        return f"{self.model_id} at {self.provider_id}"

    @property
    def promise(self) -> Promise:
        """The treatment of data on this route: its own, else its provider's."""
        provider = self.provider
        retention_days = provider.retention_days if self.retention_days is None else self.retention_days
        trains = provider.trains if self.trains is None else self.trains
        return Promise(retention_days, trains, self.region or provider.region)

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

    class Meta:
        verbose_name, verbose_name_plural = "model list of a provider", "model lists of providers"

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
    upstream_model = models.CharField("model at the provider", max_length=200)
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
            *must_hold(
                a_proposal_waits_until_it_is_decided=Q(state="pending", decided_at__isnull=True)
                | ~Q(state="pending") & Q(decided_at__isnull=False),
                a_proposal_is_about_a_model_or_a_new_one=Q(kind="new_model") | Q(model__isnull=False),
            ),
            models.UniqueConstraint(
                fields=["provider", "kind", "upstream_model", "model"],
                condition=Q(state="pending"),
                nulls_distinct=False,
                name="a_difference_is_proposed_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} of {self.subject}"

    @property
    def subject(self) -> str:
        """The id of the model: ours, or the one that a new model would get."""
        return self.model_id or self.new.get("id") or self.upstream_model


class RoutableAlias(models.Model):
    """An id that callers may send instead of a model's: it selects the first available model of ``model_ids``.

    One that ends in "@" and a day is the alias of that day. The rankings app writes these rows; completions only read them.
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
