"""The catalogue and the completions, for staff. What completions refer to cannot be deleted here: it is disabled instead."""

import os
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from billing import admin as billing_admin
from billing import money
from billing.models import Account
from completions import catalog, catalog_rules, proposals, proposals_admin  # noqa: F401  the last registers itself
from completions.models import (
    Completion,
    IdempotentRequest,
    LanguageModel,
    LanguageModelQuerySet,
    Price,
    Provider,
    RoutableAlias,
    Route,
)
from gateway_project import secretbox


class KeptAdmin(admin.ModelAdmin):
    """Rows that other rows refer to."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


# --- Providers --------------------------------------------------------------------------------------------------------


class ProviderForm(forms.ModelForm):
    """A provider, and a way to put a key in. There is none to get it out."""

    # Declared and excluded below: Django's own URLField refuses hosts of a private network, such as http://ollama:11434.
    base_url = forms.CharField(max_length=200, required=False, label="Base URL")
    api_key = forms.CharField(
        required=False,
        max_length=2_000,
        label="API key",
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password"}),
        help_text="Stored encrypted and never shown again. Empty: as it is.",
    )
    forget_api_key = forms.BooleanField(required=False, label="Forget the stored API key")

    class Meta:
        model = Provider
        exclude = ("base_url", "sealed_api_key")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "base_url" in self.fields:  # not there for staff who may only look
            self.fields["base_url"].initial = self.instance.base_url

    def clean_base_url(self) -> str:
        url: str = self.cleaned_data["base_url"]
        try:
            return catalog_rules.clean_base_url(url) if url else ""
        except ValueError as error:
            raise forms.ValidationError(f"The base URL {error}.") from None

    def clean_api_key(self) -> str:
        key: str = self.cleaned_data["api_key"]
        if key and not (key.isascii() and key.isprintable() and " " not in key):
            raise forms.ValidationError("An API key has no spaces and only ASCII characters.")
        return key

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        kind = cleaned.get("kind", self.instance.kind)
        is_echo = kind == Provider.Kind.ECHO
        if "base_url" in cleaned and bool(cleaned["base_url"]) == is_echo:
            self.add_error("base_url", "The built-in echo has no base URL." if is_echo else "This kind of provider needs one.")
        if cleaned.get("api_key") and cleaned.get("forget_api_key"):
            self.add_error("forget_api_key", "Either forget the key or enter one.")
        if cleaned.get("sync", Provider.Sync.OFF) != Provider.Sync.OFF and kind != Provider.Kind.OPENAI:
            self.add_error("sync", "Only the lists of OpenAI-compatible providers can be read.")
        if self._would_send_a_key_elsewhere(cleaned):
            self.add_error("api_key", "The key was given for another address. Enter the one for this address.")
        if not self.errors:
            self._take_over(cleaned)
        return cleaned

    def _would_send_a_key_elsewhere(self, cleaned: dict[str, Any]) -> bool:
        """Whoever could point a stored key at a host of theirs could read it."""
        has_key = bool(self.instance.api_key_env or self.instance.sealed_api_key and not cleaned.get("forget_api_key"))
        return self._moves(cleaned) and has_key and not cleaned.get("api_key")

    def _moves(self, cleaned: dict[str, Any]) -> bool:
        return cleaned.get("base_url", self.instance.base_url) != self.instance.base_url

    def _take_over(self, cleaned: dict[str, Any]) -> None:
        provider = self.instance
        if self._moves(cleaned):
            provider.api_key_env = ""  # it names the old address's key, which must not follow when this one is forgotten
            provider.base_url = cleaned["base_url"]
        if cleaned.get("forget_api_key"):
            provider.sealed_api_key = ""
        if cleaned.get("api_key"):
            slug = provider.pk or cleaned["slug"]
            provider.sealed_api_key = secretbox.encrypt(cleaned["api_key"], purpose=f"provider:{slug}")


@admin.register(Provider)
class ProviderAdmin(KeptAdmin):
    form = ProviderForm
    list_display = ("slug", "kind", "base_url", "key", "is_enabled", "sync")
    list_filter = ("kind", "is_enabled", "sync")
    search_fields = ("slug", "base_url")
    ordering = ("slug",)
    fields = (
        *("slug", "kind", "base_url", "api_key_env", "key", "api_key", "forget_api_key", "is_enabled"),
        *("connect_seconds", "first_byte_seconds", "idle_seconds", "total_seconds", "drains", "sync", "own_list"),
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Provider | None = None) -> tuple[str, ...]:
        # The variable's name is the catalogue file's: here it could send any secret of the environment anywhere.
        fixed = ("key", "api_key_env", "own_list")
        return (*fixed, "slug", "kind") if obj else fixed

    def get_fields(self, request: HttpRequest, obj: Provider | None = None) -> Any:
        if obj is None or self.has_change_permission(request, obj):
            return self.fields
        return [name for name in self.fields if name not in {"api_key", "forget_api_key"}]

    @admin.display(description="Its list")
    def own_list(self, provider: Provider) -> str:
        kept = proposals.kept_list(provider)
        if kept is None:
            return "never asked for"
        since = f"taken on {kept.confirmed_at:%Y-%m-%d %H:%M} UTC" if kept.confirmed_at else "none so far"
        return f"{since}; the last time it {kept.failure}" if kept.failure else since

    @admin.display(description="Key")
    def key(self, provider: Provider) -> str:
        if provider.sealed_api_key:
            return "stored here, encrypted"
        if not provider.api_key_env:
            return "none"
        return (
            f"in {provider.api_key_env}"
            if os.environ.get(provider.api_key_env)
            else f"missing: {provider.api_key_env} is not set"
        )


# --- Models, prices, routes -------------------------------------------------------------------------------------------


class DollarField(forms.CharField):
    """A price as its maker prints it; nanodollars inside."""

    def clean(self, value: Any) -> int | None:
        text = super().clean(value)
        try:
            return money.price_nanos(text) if text else None
        except ValueError as error:
            raise forms.ValidationError(f"{error}.") from None


class PriceForm(forms.ModelForm):
    input_dollars = DollarField(label="Input")
    output_dollars = DollarField(label="Output")
    cached_input_dollars = DollarField(label="Cached input", required=False)
    cache_write_dollars = DollarField(label="Cache write", required=False)
    image_dollars = DollarField(label="Each image", required=False)

    class Meta:
        model = Price
        fields = ()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        for kind in ("input", "output", "cached_input", "cache_write", "image"):
            setattr(self.instance, f"{kind}_nanos", cleaned.get(f"{kind}_dollars"))
        return cleaned


class PricesInDollars:
    """Columns of prices for people: US dollars per million tokens."""

    @admin.display(description="In force from")
    def since(self, price: Price) -> str:
        return f"{price.effective_from:%Y-%m-%d %H:%M:%S} UTC" if price.pk else "now"

    @admin.display(description="Input, $ per million")
    def input_dollars(self, price: Price) -> str:
        return _dollars(price.input_nanos)

    @admin.display(description="Output, $ per million")
    def output_dollars(self, price: Price) -> str:
        return _dollars(price.output_nanos)

    @admin.display(description="Cached input, $ per million")
    def cached_input_dollars(self, price: Price) -> str:
        return _dollars(price.cached_input_nanos, "as input")

    @admin.display(description="Cache write, $ per million")
    def cache_write_dollars(self, price: Price) -> str:
        return _dollars(price.cache_write_nanos, "as input")

    @admin.display(description="Each image, $")
    def image_dollars(self, price: Price) -> str:
        return _dollars(price.image_nanos, "nothing")


_PRICE_COLUMNS = ("input_dollars", "output_dollars", "cached_input_dollars", "cache_write_dollars", "image_dollars")


def _dollars(amount_nanos: int | None, otherwise: str = "") -> str:
    return otherwise if amount_nanos is None else money.dollars(amount_nanos)


class PriceInline(PricesInDollars, admin.TabularInline):
    """A price is added, and is in force from then on. Those before stay, because completions refer to them."""

    model = Price
    form = PriceForm
    extra = 0
    ordering = ("-effective_from",)
    fields = ("since", *_PRICE_COLUMNS)
    readonly_fields = ("since",)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class RouteInline(admin.TabularInline):
    model = Route
    extra = 0


class LanguageModelForm(forms.ModelForm):
    def clean_id(self) -> str:
        try:
            return catalog_rules.clean_model_id(self.cleaned_data["id"])
        except ValueError as error:
            raise forms.ValidationError(f"{error}.") from None

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("max_output_tokens", 0) > cleaned.get("context_window", 2**31):
            self.add_error("max_output_tokens", "A model cannot write more than its context window holds.")
        return cleaned


@admin.register(LanguageModel)
class LanguageModelAdmin(KeptAdmin):
    form = LanguageModelForm
    list_display = ("id", "name", "maker", "category", "price", "served", "is_enabled")
    list_filter = ("is_enabled", "category", "maker", "image_support", "function_calling", "commercial_use")
    search_fields = ("id", "name", "maker")
    inlines = (RouteInline, PriceInline)
    readonly_fields = ("served", "created_at")

    def get_readonly_fields(self, request: HttpRequest, obj: LanguageModel | None = None) -> tuple[str, ...]:
        return (*self.readonly_fields, "id") if obj else self.readonly_fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[LanguageModel]:
        models = super().get_queryset(request)
        assert isinstance(models, LanguageModelQuerySet)
        return models.with_terms()

    @admin.display(description="$ per million, in / out")
    def price(self, model: LanguageModel) -> str:
        prices = [
            f"{money.dollars(price.input_nanos)} / {money.dollars(price.output_nanos)}" for price in model.prices_in_force
        ]
        return "".join(prices) or "none"

    @admin.display(description="Served")
    def served(self, model: LanguageModel) -> str:
        if model._state.adding:
            return "not yet saved"
        refused = catalog.why_not_served(model)
        return f"no: it {refused}" if refused else "yes"


@admin.register(Price)
class PriceAdmin(PricesInDollars, billing_admin.ReadOnlyAdmin):
    list_display = ("model", "since", *_PRICE_COLUMNS)
    list_select_related = ("model",)
    search_fields = ("model__id",)
    ordering = ("model", "-effective_from")
    fields = ("model", "since", *_PRICE_COLUMNS)


@admin.register(Route)
class RouteAdmin(KeptAdmin):
    """To switch routes and reorder them at a glance. They are added and removed with their model."""

    list_display = ("model", "provider", "upstream_model", "priority", "weight", "is_enabled", "rests_until")
    list_select_related = ("model", "provider")
    list_filter = ("provider", "is_enabled")
    search_fields = ("model__id", "upstream_model")
    ordering = ("model", "priority")
    readonly_fields = ("model", "provider", "upstream_model", "rests_until")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False


# --- Completions ------------------------------------------------------------------------------------------------------


@admin.register(RoutableAlias)
class RoutableAliasAdmin(billing_admin.ReadOnlyAdmin):
    """Which model an alias stands for is worked out, not entered."""

    list_display = ("id", "model_ids", "updated_at")
    search_fields = ("id",)
    ordering = ("id",)


@admin.register(Completion)
class CompletionAdmin(billing_admin.ReadOnlyAdmin):
    list_display = ("id", "account", "key", "model", "state", "prompt_tokens", "completion_tokens", "cost", "created_at")
    list_select_related = ("account", "key", "model")
    list_filter = ("settlement", "is_stream", "created_at", "model")
    search_fields = ("id",)
    search_help_text = "The whole id of a completion, an account or a key; or an account's name, or a member's e-mail address."
    ordering = ("-id",)  # ids sort by time, and the primary key is an index
    fields = (
        *("id", "account", "key", "model", "provider", "attempts", "price_used", "is_stream", "state"),
        *("prompt_tokens", "cached_tokens", "cache_write_tokens", "images", "completion_tokens", "cost"),
        *("first_token_ms", "streamed_ms", "spending_day", "created_at", "finished_at"),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Completion], search_term: str
    ) -> tuple[QuerySet[Completion], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        accounts = Account.objects.filter(_account(term))
        return queryset.filter(Q(pk=term) | Q(key=term) | Q(account__in=accounts)), False

    @admin.display(description="Settlement", ordering="settlement")
    def state(self, completion: Completion) -> str:
        return completion.get_settlement_display() if completion.settlement else "running"

    @admin.display(description="Cost, $")
    def cost(self, completion: Completion) -> str:
        return _dollars(completion.cost_nanos)

    @admin.display(description="Price, $ per million")
    def price_used(self, completion: Completion) -> str:
        price = completion.price
        return f"{money.dollars(price.input_nanos)} in, {money.dollars(price.output_nanos)} out"


def _account(term: str) -> Q:
    named = Q(name__iexact=term) | Q(members__email=term.lower())
    try:
        return named | Q(pk=UUID(term))
    except ValueError:
        return named


@admin.register(IdempotentRequest)
class IdempotentRequestAdmin(billing_admin.ReadOnlyAdmin):
    """What is known of callers' Idempotency-Keys; the reply itself stays sealed."""

    list_display = ("key", "account", "completion", "is_stream", "is_kept", "is_too_large", "expires_at")
    list_select_related = ("account", "completion")
    search_fields = ("key", "completion__id")
    ordering = ("-id",)
    fields = ("key", "account", "completion", "fingerprint", "is_stream", "is_kept", "is_too_large", "expires_at")

    @admin.display(boolean=True, description="reply kept")
    def is_kept(self, known: IdempotentRequest) -> bool:
        return known.sealed_reply is not None
