"""Admin forms of the catalog: providers with their keys, models, and prices in dollars."""

from typing import Any

from django import forms

from billing import money
from completions.catalog import rules
from completions.models import LanguageModel, ModelKind, Price, Provider, ProviderPrice, Route
from gateway_project.text import dollars

_DEADLINE = "Leave empty for the gateway's setting."


class ProviderForm(forms.ModelForm):
    """A provider. Its API key can be entered, but never read."""

    # Declared here and excluded below, because Django's URLField refuses hosts of private networks, such as http://ollama:11434.
    base_url = forms.CharField(max_length=200, required=False, label="Base URL")
    api_key = forms.CharField(
        required=False,
        max_length=2_000,
        label="API key",
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password"}),
        help_text="Stored encrypted and never shown again. Leave empty to keep the current one.",
    )
    forget_api_key = forms.BooleanField(required=False, label="Forget the stored API key")

    class Meta:
        model = Provider
        exclude = ("base_url", "sealed_api_key")
        help_texts = {
            "api_key_env": "The environment variable with the key, if it is not stored here.",
            "connect_seconds": _DEADLINE,
            "first_byte_seconds": _DEADLINE,
            "idle_seconds": _DEADLINE,
            "total_seconds": "The gateway's setting applies if it is lower, or if this is empty.",
            "cancels": "Its documentation says that it stops charging when the connection is closed. When a client disconnects,"
            " we then end the request, unless the model may reason. Otherwise we read every reply to its end.",
            "passes_unknown_fields": "Your own server, in OpenAI's format. It gets all fields, also unknown ones.",
            "sync": "What its list of models changes here. We read it once a day.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "base_url" in self.fields:  # absent for staff with view permission only
            self.fields["base_url"].initial = self.instance.base_url

    def clean_base_url(self) -> str:
        url: str = self.cleaned_data["base_url"]
        try:
            return rules.clean_base_url(url) if url else ""
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
            self.add_error("forget_api_key", "Enter a key or forget it, not both.")
        if cleaned.get("sync", Provider.Sync.OFF) != Provider.Sync.OFF and kind != Provider.Kind.OPENAI:
            self.add_error("sync", "Only the lists of OpenAI-compatible providers can be read.")
        if self._would_send_a_key_elsewhere(cleaned):
            self.add_error("api_key", "The key was given for another address. Enter the one for this address.")
        if not self.errors:
            self._set_fields(cleaned)
        return cleaned

    def _would_send_a_key_elsewhere(self, cleaned: dict[str, Any]) -> bool:
        """Whether a stored key would go to a new address. Otherwise staff could read it by pointing it at their own host."""
        has_key = bool(self.instance.api_key_env or self.instance.sealed_api_key and not cleaned.get("forget_api_key"))
        return self._changes_address(cleaned) and has_key and not cleaned.get("api_key")

    def _changes_address(self, cleaned: dict[str, Any]) -> bool:
        return bool(cleaned.get("base_url", self.instance.base_url) != self.instance.base_url)

    def _set_fields(self, cleaned: dict[str, Any]) -> None:
        provider = self.instance
        if self._changes_address(cleaned):
            provider.api_key_env = (
                ""  # it names the key of the old address, which must not be used once the new key is forgotten
            )
            provider.base_url = cleaned["base_url"]
        if cleaned.get("forget_api_key"):
            provider.sealed_api_key = ""
        if cleaned.get("api_key"):
            provider.slug = provider.slug or cleaned["slug"]
            provider.seal_api_key(cleaned["api_key"])


class DollarField(forms.CharField):
    """A price in dollars, as makers publish it. Cleans to nanodollars."""

    def clean(self, value: Any) -> int | None:
        text = super().clean(value)
        try:
            return money.price_nanos(text) if text else None
        except ValueError as error:
            raise forms.ValidationError(f"{error}.") from None


class PriceForm(forms.ModelForm):
    """The first price of a model. Those of service tiers are set afterwards (``price_changes``)."""

    input_dollars = DollarField(label="Input")
    output_dollars = DollarField(label="Output")
    cached_input_dollars = DollarField(label="Cached input", required=False)
    cache_write_dollars = DollarField(label="Cache write", required=False)
    cache_write_1h_dollars = DollarField(label="Cache write for an hour", required=False)
    image_dollars = DollarField(label="Each image", required=False)
    web_search_dollars = DollarField(label="Each web search", required=False)

    class Meta:
        model = Price
        fields = ()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        for kind in ("input", "output", "cached_input", "cache_write", "cache_write_1h", "image", "web_search"):
            setattr(self.instance, f"{kind}_nanos", cleaned.get(f"{kind}_dollars"))
        return cleaned


class ProviderPriceForm(forms.ModelForm):
    """What a provider charges for a model, in dollars."""

    class Meta:
        model = ProviderPrice
        fields = ("model", "provider", "since")
        help_texts = {"since": "The first UTC day of this price. With a past day, the margins since then are computed again."}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in rules.PRICE_FIELDS:
            nanos = getattr(self.instance, f"{name}_nanos")
            if f"{name}_dollars" in self.fields and nanos is not None:
                self.fields[f"{name}_dollars"].initial = dollars.format_plain(nanos)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        prices = {name: cleaned.get(f"{name}_dollars") for name in rules.PRICE_FIELDS}
        if tier := rules.tier_without_price(prices):
            self.add_error(f"{tier}_input_dollars", "A service tier needs a price of input and one of output.")
        for name, nanos in prices.items():
            setattr(self.instance, f"{name}_nanos", nanos)
        return cleaned


def _declare_prices(form: Any) -> None:
    """Give the form a field for each price. Only those of input and output are required."""
    for name in rules.PRICE_FIELDS:
        label = f"{name.replace('_', ' ').replace('1h', 'for an hour').capitalize()}, $"
        form.base_fields[f"{name}_dollars"] = DollarField(label=label, required=name in ("input", "output"))
        form.declared_fields[f"{name}_dollars"] = form.base_fields[f"{name}_dollars"]


_declare_prices(ProviderPriceForm)


class RouteForm(forms.ModelForm):
    class Meta:
        model = Route
        fields = "__all__"
        help_texts = {"api": "With Responses, reasoning continues across turns. Only OpenAI-compatible providers have it."}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        saved = {"provider": self.instance.provider, "model": self.instance.model} if self.instance.pk else {}
        given = {**saved, **cleaned}
        if given.get("provider") and "api" in cleaned:
            model = given.get("model")
            is_embedding = model is not None and model.kind == ModelKind.EMBEDDING
            try:
                rules.check_api(cleaned["api"], given["provider"].kind, is_embedding=is_embedding)
            except ValueError as error:
                self.add_error("api", f"It {error}.")
        return cleaned


class LanguageModelForm(forms.ModelForm):
    class Meta:
        model = LanguageModel
        fields = "__all__"
        help_texts = {
            "maker": "The company that built it.",
            "image_tokens_max": "Maximum tokens that the provider counts for one image. Each image is held at this number.",
            "reasoning": "Whether it reasons in tokens that replies do not show. Unknown: only when a request asks for it.",
            "requests_in_flight_max": "For each key at a time. Leave empty for the limit of all models together.",
        }

    def clean_id(self) -> str:
        try:
            return rules.clean_model_id(self.cleaned_data["id"])
        except ValueError as error:
            raise forms.ValidationError(f"{error}.") from None

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("max_output_tokens", 0) > cleaned.get("context_window", 2**31):
            self.add_error("max_output_tokens", "The maximum output cannot exceed the context window.")
        return cleaned
