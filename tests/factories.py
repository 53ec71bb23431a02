"""Makes the objects of tests with plain functions. A balance is made by posting an entry, as in the product."""

from typing import Any

from django.db.models import ProtectedError
from django.db.models.functions import Now

from billing.accounts import lifecycle as account_lifecycle
from billing.ledger import writer
from billing.models import Account, Membership, Role, User
from completions.models import LanguageModel, Price, Provider, Route
from completions.pricing import rates
from completions.pricing.rates import RateSheet
from gateway_project import identifiers
from keys import lifecycle
from keys.models import ApiKey
from keys.spending_limit import SpendingLimit

PASSWORD = "correct horse battery staple"


def make_user(email: str, **fields: Any) -> User:
    return User.objects.create_user(email, PASSWORD, **fields)


def make_account(name: str = "Example", *, cents: int = 0, owner: User | None = None, is_new: bool = False) -> Account:
    """Return an account with some credit. Unless it is new, it has paid for usage before."""
    account = Account.objects.create(name=name, has_paid=not is_new)
    if owner:
        account_lifecycle.add_member(account, owner)
    if cents:
        credit(account, cents)
    return account


def add_member(account: Account, user: User, role: str = Role.OWNER) -> Membership:
    return account_lifecycle.add_member(account, user, Role(role))


def credit(account: Account, cents: int) -> None:
    writer.grant_support_credit(account.pk, amount_cents=cents, reason="test", reference=identifiers.short_uuid7())
    account.refresh_from_db()


def make_key(
    account: Account, name: Any = "test", *, limit_cents: Any = None, type: Any = None, period: Any = None, **fields: Any
) -> tuple[ApiKey, str]:
    return lifecycle.issue_key(account, name=name, limit=SpendingLimit(limit_cents, type, period), **fields)


def make_provider(slug: str = "echo", *, kind: str = "echo", **fields: Any) -> Provider:
    return Provider.objects.get_or_create(slug=slug, defaults={"kind": kind, **fields})[0]


def make_model(
    model_id: str = "demo/echo",
    *,
    provider: Provider | None = None,
    input: str = "0.50",
    output: str = "1.50",
    cached_input: str | None = None,
    upstream_model: str = "echo",
    **fields: Any,
) -> LanguageModel:
    defaults = {"name": model_id, "maker": "Demo", "context_window": 128_000, "max_output_tokens": 4_096}
    model = LanguageModel.objects.create(id=model_id, **{**defaults, **fields})
    make_price(model, input=input, output=output, cached_input=cached_input)
    Route.objects.create(model=model, provider=provider or make_provider(), upstream_model=upstream_model)
    return model


def make_price(model: LanguageModel, *, since: Any = None, **values: str | None) -> Price:
    """Return a new price of a model, in force at once or since a time. ``values``: dollars by the names of rates."""
    begin = {} if since is None else {"effective_from": since}
    return Price.objects.create(model=model, rates=RateSheet.of_values(values).rows, **begin)


def make_large_model(url: str = "http://upstream.invalid/v1") -> LanguageModel:
    """Return a model that a scripted upstream serves: 3,000 nanodollars a prompt token (300 cached), 15,000 a generated one."""
    provider = make_provider("scripted", kind="openai", base_url=url, api_key_env="SCRIPTED_UPSTREAM_KEY")
    return make_model(
        "acme/large", provider=provider, input="3.00", output="15.00", cached_input="0.30", upstream_model="large-2026"
    )


def change_prices(prices: Any, *, effective_from: Any = None, **nanos: int | None) -> None:
    """Put prices with other rates in the place of these, or after those that something was charged at.

    ``nanos``: nanodollars by the names of rates, such as ``flex_input_nanos``; None removes one. A price is never changed.
    """
    for price in prices.all():
        price_id = price.pk
        try:
            price.delete()
        except ProtectedError:
            price_id, price.effective_from = None, Now()
        changed = {f"{rate.name}_nanos": rate.nanos for rate in price.sheet} | nanos
        price.pk, price.rates, price.effective_from = price_id, rates_of(**changed), effective_from or price.effective_from
        price.save(force_insert=True)


def rates_of(**nanos: int | None) -> list[dict[str, Any]]:
    """Return the JSON of rates in nanodollars, by their names: ``input_nanos=...``."""
    stated = [(rates.parse_name(name.removesuffix("_nanos")), each) for name, each in nanos.items() if each is not None]
    return RateSheet(rates.Rate(*place, each) for place, each in stated if place).rows
