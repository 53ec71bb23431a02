"""Admin forms of the catalog: providers with their keys, models, and prices in dollars."""

from collections.abc import Iterable
from typing import Any

from django import forms

from billing import money
from completions.catalog import rules
from completions.models import LanguageModel, ModelKind, Price, Provider, ProviderPrice, Route
from completions.pricing import meters, rates
from completions.pricing.rates import RateSheet
from completions.providers.access import keeper
from gateway_project.text import dollars


class ProviderForm(forms.ModelForm):
    """A provider. Its API key can be entered, but never read."""

    # Declared here and excluded below, because Django's URLField refuses hosts of private networks, such as http://ollama:11434.
    base_url = forms.CharField(max_length=200, required=False, label="Base URL")
    api_key = forms.CharField(
        required=False,
        max_length=rules.SERVICE_ACCOUNT_CHARACTERS_MAX,
        label="API key",
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password"}),
        help_text="Stored encrypted and never shown again. Leave empty to keep the current one.",
    )
    forget_api_key = forms.BooleanField(required=False, label="Forget the stored API key")

    class Meta:
        model = Provider
        exclude = ("base_url", "sealed_api_key", "access")
        help_texts = {
            "total_seconds": "The gateway's setting applies if it is lower, or if this is empty.",
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
        try:
            return rules.clean_api_key(key, self.instance.access.get("auth", {})) if key else ""
        except ValueError as error:
            raise forms.ValidationError(f"{error}.") from None

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        kind = cleaned.get("kind", self.instance.kind)
        is_echo = kind == Provider.Kind.ECHO
        if "base_url" in cleaned and bool(cleaned["base_url"]) == is_echo:
            self.add_error("base_url", "The built-in echo has no base URL." if is_echo else "This kind of provider needs one.")
        if cleaned.get("api_key") and cleaned.get("forget_api_key"):
            self.add_error("forget_api_key", "Enter a key or forget it, not both.")
        if cleaned.get("sync", Provider.Sync.OFF) != Provider.Sync.OFF and is_echo:
            self.add_error("sync", "The built-in echo has no list.")
        # Otherwise staff could read a stored key by pointing it at their own host.
        has_key = bool(self.instance.api_key_env or self.instance.sealed_api_key and not cleaned.get("forget_api_key"))
        if self._changes_address(cleaned) and has_key and not cleaned.get("api_key"):
            self.add_error("api_key", "The key was given for another address. Enter the one for this address.")
        if self._changes_address(cleaned) and self.instance.access.get("auth", {}).get("type") in keeper.SOURCES:
            self.add_error("base_url", "A cloud's credential goes to the address in the catalog file. Change it there.")
        if not self.errors:
            self._set_fields(cleaned)
        return cleaned

    def _changes_address(self, cleaned: dict[str, Any]) -> bool:
        return bool(cleaned.get("base_url", self.instance.base_url) != self.instance.base_url)

    def _set_fields(self, cleaned: dict[str, Any]) -> None:
        provider = self.instance
        if self._changes_address(cleaned):
            provider.api_key_env = ""  # its key is of the old address, and must not be used once the new key is forgotten
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


# The rates that forms have a field for. All others, of long prompts and of other tiers, are lines of one text.
FIELD_TIERS = ("flex", "priority")
RATE_NAMES = (
    *meters.BY_NAME,
    *(rates.rate_name(name, tier) for tier in FIELD_TIERS for name in ("input", "cached_input", "output")),
)
MORE_RATES = "more_rates"
MORE_RATES_HELP = "Of long prompts and of other tiers, one a line: input_above_200000 = 4.00, or us_input = 2.20."


def rate_field(name: str, **options: Any) -> DollarField:
    """Return the field of a rate. Only those of input and output are required."""
    return DollarField(label=_label(name), required=name in meters.REQUIRED, help_text=_help(name), **options)


def _label(name: str) -> str:
    """Return ``Input, $ per million tokens``; ``Flex tier, cached input``; or ``Each image, $``."""
    meter, tier, above = rates.parse_name(name) or (name, "", 0)
    title = rates.Rate(meter, tier, above, 0).title
    if meters.BY_NAME[meter].unit is meters.Unit.EACH:
        return f"Each {title.lower()}, $"
    return f"{title}, $ per million tokens" if name in meters.REQUIRED else title


def _help(name: str) -> str:
    """Return what an empty field means."""
    meter, tier, _ = rates.parse_name(name) or (name, "", 0)
    if meter in meters.REQUIRED:
        return "Leave empty to refuse this tier." if tier else ""
    without = meters.BY_NAME[meter].without_rate
    return {"refused": "Leave empty to refuse it.", "nothing": "Leave empty for no charge."}.get(
        without, f"Leave empty to charge it {without}{' of the tier' if tier else ''}."
    )


def more_lines(sheet: RateSheet) -> str:
    """Return the rates that have no field, a line each."""
    return "\n".join(f"{name} = {value}" for name, value in sheet.values.items() if name not in RATE_NAMES)


def read_sheet(form: forms.BaseForm, cleaned: dict[str, Any], suffix: str = "") -> RateSheet | None:
    """Return the price that a form states, or None after adding its mistakes to the form."""
    values = {name: cleaned.get(f"{name}{suffix}") for name in RATE_NAMES}
    stated = {name: dollars.format_plain(nanos) for name, nanos in values.items() if nanos is not None}
    for line in filter(str.strip, (cleaned.get(MORE_RATES) or "").splitlines()):
        name, _, value = map(str.strip, line.partition("="))
        if name in RATE_NAMES or not rates.parse_name(name) or name in stated:
            form.add_error(MORE_RATES, f"{name} is given twice." if name in stated else f"{line.strip()} names no other rate.")
            return None
        stated[name] = value
    if place := rates.incomplete_place(stated):
        field = rates.rate_name("input", *place)
        message = f"Rates {rates.describe_place(*place)} need one of input and one of output.".replace("  ", " ")
        form.add_error(f"{field}{suffix}" if field in RATE_NAMES else MORE_RATES, message)
        return None
    try:
        return RateSheet.of_values(stated)
    except ValueError as error:
        form.add_error(MORE_RATES, f"{error}.")
        return None


class _RatesForm(forms.ModelForm):
    """A row with a price, in dollars."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        sheet = self.instance.sheet if self.instance.rates else RateSheet([])
        for name, value in sheet.values.items():
            if f"{name}_dollars" in self.fields:
                self.fields[f"{name}_dollars"].initial = value
        if MORE_RATES in self.fields:
            self.fields[MORE_RATES].initial = more_lines(sheet)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if not self.errors and (sheet := read_sheet(self, cleaned, "_dollars")):
            self.instance.rates = sheet.rows
            self.instance.__dict__.pop("sheet", None)
        return cleaned


class PriceForm(_RatesForm):
    """The first price of a model. Its service tiers and long prompts are set afterwards (``price_changes``)."""

    class Meta:
        model = Price
        fields = ()


class ProviderPriceForm(_RatesForm):
    """A provider's price of a model, in dollars."""

    more_rates = forms.CharField(label="More rates", required=False, widget=forms.Textarea, help_text=MORE_RATES_HELP)

    class Meta:
        model = ProviderPrice
        fields = ("model", "provider", "since")


def _declare_rates(form: Any, names: Iterable[str]) -> None:
    fields = {f"{name}_dollars": rate_field(name) for name in names}
    form.base_fields.update(fields)
    form.declared_fields.update(fields)


_declare_rates(PriceForm, meters.BY_NAME)
_declare_rates(ProviderPriceForm, RATE_NAMES)


class RouteForm(forms.ModelForm):
    class Meta:
        model = Route
        fields = "__all__"
        help_texts = dict.fromkeys(("retention_days", "trains", "region"), "Leave empty or unknown for what the provider says.")

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

    def clean_id(self) -> str:
        try:
            return rules.clean_model_id(self.cleaned_data["id"])
        except ValueError as error:
            raise forms.ValidationError(f"{error}.") from None

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("max_output_tokens", 0) > cleaned.get("context_window", 2**31):
            self.add_error("max_output_tokens", "The maximum output cannot exceed the context window.")
        if cleaned.get("successor") == self.instance:
            self.add_error("successor", "A model cannot be its own successor.")
        return cleaned
