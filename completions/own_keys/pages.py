"""/dashboard/settings/provider-keys/: the account's own keys of providers. A secret is typed here, and never shown again."""

from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.debug import sensitive_post_parameters

from billing.accounts.member_pages import form_page, plain_page
from billing.accounts.roles import Permission
from billing.models import Account, DataPolicy
from billing.sign_in.reauthentication import NOT_SHOWN, reauthenticates
from completions.catalog import data_demands
from completions.models import OwnKey, Provider, Route
from completions.own_keys import acts, check
from completions.own_keys.check import Verdict
from gateway_project.db import pool

_SECRET = f"{NOT_SHOWN}key_secret"
_FALLBACKS = [("", "The request fails"), ("ours", "Our key serves it, at the full price")]
_COUNTS = [("", "Our fee alone"), ("price", "Our fee and the provider's price: what the model costs here")]
_PROMISES = [
    (DataPolicy.ANY, "Nothing about training or storage"),
    (DataPolicy.DENY, "It does not train on prompts and replies"),
    (DataPolicy.ZDR, "It keeps nothing of prompts and replies"),
]


def providers_for(account: Account) -> list[Provider]:
    """Return the providers with models here that take keys of accounts, and of which the account has none."""
    taken = account.own_keys.values("provider")
    return [each for each in Provider.objects.filter(is_enabled=True).exclude(pk__in=taken) if _takes_keys(each)]


def _takes_keys(provider: Provider) -> bool:
    return provider.takes_own_keys and provider.is_configured


class OwnKeyForm(forms.Form):
    """A key of one of the ``providers``, or changes of the ``stored`` one."""

    provider = forms.ChoiceField()
    own_key_secret = forms.CharField(
        label="Key",
        min_length=12,
        max_length=500,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="We store it encrypted, and show only its last four characters.",
    )
    models = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "autocapitalize": "none"}),
        help_text="IDs of the models it serves, one per line. Leave empty for all models of the provider.",
    )
    fallback = forms.ChoiceField(label="If it fails", required=False, choices=_FALLBACKS, widget=forms.RadioSelect)
    counts = forms.ChoiceField(label="Limits and budgets count", required=False, choices=_COUNTS, widget=forms.RadioSelect)
    promised = forms.ChoiceField(
        label="Your contract with the provider says",
        required=False,
        choices=_PROMISES,
        widget=forms.RadioSelect,
        help_text="A request that demands more about data does not use the key.",
    )
    unchecked = forms.BooleanField(label="Save it unchecked", required=False)

    def __init__(self, providers: list[Provider], stored: OwnKey | None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.providers, self.stored = {each.pk: each for each in providers}, stored
        self.fields["provider"].choices = [(each, each) for each in self.providers]  # type: ignore[attr-defined]
        if stored:
            self.fields["provider"].required, self.fields["provider"].widget = False, forms.HiddenInput()
            self.fields[_SECRET].required = False
            self.fields[_SECRET].help_text = f"Leave empty to keep the one that ends with {stored.hint}."
        self.fields["unchecked"].widget = forms.HiddenInput()

    @property
    def chosen_provider(self) -> Provider:
        return self.stored.provider if self.stored else self.providers[self.cleaned_data["provider"]]

    def clean_own_key_secret(self) -> str:
        secret = str(self.cleaned_data[_SECRET])
        if not (secret.isascii() and secret.isprintable()) or " " in secret:
            raise forms.ValidationError("A key has no spaces, and only letters, digits and signs of ASCII.")
        return secret

    def clean(self) -> None:
        wanted = list(dict.fromkeys(self.cleaned_data.get("models", "").split()))
        if not self.errors and self.cleaned_data[_SECRET] and not _takes_keys(self.chosen_provider):
            self.add_error(_SECRET, f"{self.chosen_provider} takes no keys of accounts now.")
        if not self.errors:
            routes = Route.objects.filter(provider=self.chosen_provider, is_enabled=True)
            if unknown := set(wanted) - set(routes.values_list("model_id", flat=True)):
                self.add_error("models", f"{self.chosen_provider} serves no model {min(unknown)}.")
        self.cleaned_data["model_ids"] = wanted

    def checked(self, request: HttpRequest, account: Account) -> str | None:
        """Ask the provider about a new secret. Return what came of it; None, with an error, where it must not be saved."""
        secret = self.cleaned_data[_SECRET]
        if not secret:
            return self.stored.check_words if self.stored else ""
        provider = self.chosen_provider
        acts.begin_check(request, account, provider, secret)
        pool.release_connection()  # the provider may take its time
        verdict, words = check.check(provider, secret)
        if verdict is Verdict.ACCEPTED:
            return words
        if verdict is Verdict.UNKNOWN and self.cleaned_data["unchecked"]:
            return f"Not checked: {words}"
        if verdict is Verdict.UNKNOWN:
            words += " Enter the key again and try again, or save it unchecked."
            self.fields["unchecked"].widget = forms.CheckboxInput()
        self.add_error(_SECRET, words)
        return None


@plain_page(Permission.MANAGE_PROVIDER_KEYS)
def show(request: HttpRequest, account: Account) -> HttpResponse:
    keys = list(account.own_keys.select_related("provider").order_by("provider_id"))
    demands = data_demands.in_force(None, account=account)
    left_out = [key for key in keys if any({*each.unmet(key.promise(""))} - {"region"} for each in demands)]
    shown = {"keys": keys, "left_out": left_out, "may_add": bool(providers_for(account))}
    shown["fee"] = f"{settings.OWN_KEY_FEE_BASIS_POINTS / 100:g}%"
    return render(request, "own_keys/list.html", shown)


@sensitive_post_parameters(_SECRET)
@form_page(Permission.MANAGE_PROVIDER_KEYS)
@reauthenticates
def add(request: HttpRequest, account: Account) -> HttpResponse:
    """Ask for a key. A POST without fields, of the list's button, asks for the password before the key is typed."""
    return _form_page(request, account, OwnKeyForm(providers_for(account), None, _typed(request)))


@sensitive_post_parameters(_SECRET)
@form_page(Permission.MANAGE_PROVIDER_KEYS)
@reauthenticates
def change(request: HttpRequest, account: Account, key_id: UUID) -> HttpResponse:
    key = get_object_or_404(_keys(account), pk=key_id)
    initial = {"models": "\n".join(key.model_ids), "fallback": "ours" if key.falls_back else ""}
    initial |= {"counts": "price" if key.counts_price else "", "promised": key.promised}
    return _form_page(request, account, OwnKeyForm([], key, _typed(request), initial=initial))


def _form_page(request: HttpRequest, account: Account, form: OwnKeyForm) -> HttpResponse:
    if form.is_bound and form.is_valid() and (words := form.checked(request, account)) is not None:
        given, provider = form.cleaned_data, form.chosen_provider
        chosen = {"model_ids": given["model_ids"], "falls_back": given["fallback"] == "ours", "check_words": words}
        chosen |= {"counts_price": given["counts"] == "price", "promised": given["promised"]}
        acts.save(request, account, provider, given[_SECRET], chosen)
        messages.success(request, f"The key of {provider} is saved. {words}" if given[_SECRET] else "Saved.")
        return redirect("provider-keys")
    return render(request, "own_keys/form.html", {"form": form, "stored": form.stored})


@form_page(Permission.MANAGE_PROVIDER_KEYS)
@reauthenticates
def remove(request: HttpRequest, account: Account, key_id: UUID) -> HttpResponse:
    """Ask first; a POST removes the key with its secret."""
    key = get_object_or_404(_keys(account), pk=key_id)
    if request.method == "POST":
        acts.remove(request, key)
        messages.success(request, f"The key of {key.provider_id} is removed.")
        return redirect("provider-keys")
    return render(request, "own_keys/remove.html", {"key": key})


def _keys(account: Account) -> QuerySet[OwnKey]:
    return account.own_keys.select_related("provider")


def _typed(request: HttpRequest) -> Any:
    return request.POST if request.method == "POST" and "models" in request.POST else None
