"""The tables of a catalog file, validated by pydantic, and the sentences that name each mistake by table and field.

Values have exactly the type of their field: ``true`` is not a whole number. Unknown fields are errors.
"""

import datetime
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Self, get_args, get_origin

import msgspec
import pydantic
from pydantic_core import ErrorDetails, PydanticKnownError

from billing import money
from billing.models import REGION
from completions import chat
from completions.catalog import markup, rules
from completions.models import Category, ModelKind, Provider, Route
from completions.pricing import meters, rates
from completions.pricing.rates import Rate, RateSheet
from completions.providers.access import platforms
from gateway_project.text import web_addresses

Columns = dict[str, Any]  # column -> value
IMAGE_TOKENS_MAX = 6_000  # of a model whose table does not say
_INTEGER_MAX, _SMALL_INTEGER_MAX = 2**31 - 1, 32_767  # of the columns


class InvalidCatalog(ValueError):
    """``errors`` has a sentence for every mistake. Nothing was written."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


def _rule(is_kept: Callable[[Any], object], mistake: str) -> pydantic.AfterValidator:
    """``mistake`` says, with the value, what is wrong with one that does not keep the rule."""

    def check(value: Any) -> Any:
        if not is_kept(value):
            raise ValueError(mistake.format(value))
        return value

    return pydantic.AfterValidator(check)


def _text(characters_max: int) -> pydantic.AfterValidator:
    mistake = f"must have 1-{characters_max} printable characters, and no space at its ends"
    return _rule(lambda text: text.isprintable() and text == text.strip() and 1 <= len(text) <= characters_max, mistake)


def _between_1_and(maximum: int) -> pydantic.AfterValidator:
    return _rule(lambda number: 1 <= number <= maximum, f"{{}} is not between 1 and {maximum}")


def _one_of(choices: Collection[str]) -> pydantic.AfterValidator:
    return _rule(lambda text: text in choices, f"{{!r}} is not one of {', '.join(choices)}")


def _repeated(values: Iterable[Any]) -> list[Any]:
    return [value for value, number in Counter(values).items() if number > 1]


def _price_nanos(value: object, info: pydantic.ValidationInfo) -> int:
    """Nanodollars per million tokens, or per image, of a price as text."""
    if type(value) in {int, float}:
        raise ValueError(f'write the price as text, {info.field_name} = "{value}": a number in a file gets rounded')
    if not isinstance(value, str):
        raise PydanticKnownError("string_type")
    return money.price_nanos(value)


_PROVIDER_NAME = re.compile(r"[-a-zA-Z0-9_]{1,50}")
_ProviderName = Annotated[
    str, _rule(_PROVIDER_NAME.fullmatch, "a provider's name has 1-50 letters, digits, hyphens and underscores")
]
_Seconds = Annotated[int, _between_1_and(7_200)]
_Count = Annotated[int, _between_1_and(_INTEGER_MAX)]
_SmallCount = Annotated[int, _between_1_and(_SMALL_INTEGER_MAX)]
_PriceNanos = Annotated[int, pydantic.PlainValidator(_price_nanos)]
_Days = Annotated[int, _rule(lambda days: 0 <= days <= 36_500, "{} is not between 0 and 36500")]
_PromisedRegion = Annotated[
    str, _rule(re.compile(f"{REGION}|global").fullmatch, "{!r} is neither two lower-case letters, such as eu or us, nor global")
]


class _Table(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid", frozen=True)


class About(_Table):
    """[catalog]"""

    as_of: datetime.date | None = None


class _PromiseTable(_Table):
    """The columns of ``models.DataPromise``: what is known of how the data of requests is treated."""

    retention_days: _Days | None = None
    trains: bool | None = None
    region: _PromisedRegion | None = None

    @pydantic.model_validator(mode="after")
    def _trains_on_what_it_keeps(self) -> Self:
        if self.trains and self.retention_days == 0:
            raise ValueError("trains = true contradicts retention_days = 0: what is trained on is kept")
        return self

    @property
    def promise(self) -> Columns:
        return {"retention_days": self.retention_days, "trains": self.trains, "region": self.region or ""}


class ProviderTable(_PromiseTable):
    """A table [providers.NAME] of a provider without an address, such as the built-in echo."""

    kind: Annotated[str, _one_of(Provider.Kind.values)]
    connect_seconds: _Seconds | None = None
    first_byte_seconds: _Seconds | None = None
    idle_seconds: _Seconds | None = None
    total_seconds: _Seconds | None = None
    cancels: bool = False

    @property
    def columns(self) -> Columns:
        """The columns of the provider, with the defaults of what only one with an address has."""
        return {**HttpProviderTable.model_construct(base_url="").columns, **self.model_dump(), **self.promise}


_Variable = Annotated[str, pydantic.AfterValidator(rules.clean_api_key_env)]
# The fields that each type of ``auth`` may have beside ``env``, the variable with the key; and those that it must have.
_AUTH_FIELDS = {
    "bearer": (),
    "header": ("name",),
    "google": (),
    "aws": ("region", "service"),
    "azure": ("tenant_id", "client_id", "scope"),
}
_AUTH_REQUIRED = {"header": ("name",), "aws": ("region", "service")}


class AuthTable(_Table):
    """``auth``: what proves to a provider who asks, where that is not the key in the header of its kind."""

    type: Annotated[str, _one_of(_AUTH_FIELDS)]
    env: _Variable = ""
    name: Annotated[str, pydantic.AfterValidator(rules.clean_key_header)] | None = None
    region: Annotated[str, _text(50)] | None = None
    service: Annotated[str, _text(50)] | None = None
    tenant_id: Annotated[str, _text(100)] | None = None
    client_id: Annotated[str, _text(100)] | None = None
    scope: Annotated[str, _text(200)] | None = None

    @property
    def stated(self) -> dict[str, str]:
        return self.model_dump(exclude={"env"}, exclude_none=True)


class HttpProviderTable(ProviderTable):
    """[providers.NAME] of every other kind. ``auth``, ``headers`` and what follows are the column ``access`` of ``Provider``;
    every other field is a column, and belongs to ``forms.ProviderForm``, too.
    """

    base_url: Annotated[str, pydantic.AfterValidator(rules.clean_base_url)]
    api_key_env: _Variable = ""
    passes_unknown_fields: bool = False
    auth: AuthTable | None = None
    headers: Annotated[dict[str, str], pydantic.AfterValidator(rules.clean_headers)] = {}
    query: Annotated[dict[str, str], pydantic.AfterValidator(rules.clean_entries)] = {}
    paths: Annotated[dict[str, str], pydantic.AfterValidator(rules.clean_paths)] = {}
    platform: Annotated[str, _one_of(platforms.PLATFORMS)] | None = None

    @pydantic.field_validator("auth")
    @classmethod
    def _is_complete(cls, auth: AuthTable, info: pydantic.ValidationInfo) -> AuthTable:
        known = platforms.signing(info.data.get("base_url", "")) if auth.type == "aws" else {}
        auth = auth.model_copy(update={name: value for name, value in known.items() if getattr(auth, name) is None})
        for name in auth.stated.keys() - {"type", *_AUTH_FIELDS[auth.type]}:
            raise ValueError(f"of the type {auth.type} has no {name}")
        for name in _AUTH_REQUIRED.get(auth.type, ()):
            if name not in auth.stated and not (auth.env and auth.type == "aws"):
                raise ValueError(f"of the type {auth.type} needs {name}")
        if auth.env and info.data.get("api_key_env"):
            raise ValueError("has env beside api_key_env: write one of them")
        if auth.type == "azure" and auth.env and not (auth.tenant_id and auth.client_id):
            raise ValueError("of the type azure with env, the secret of an application, needs tenant_id and client_id")
        return auth

    @pydantic.model_validator(mode="after")
    def _keeps_the_identity_of_the_host(self) -> "HttpProviderTable":
        """Without ``env`` the key of a cloud is the host's own, and opens more than models: it goes to that cloud alone."""
        domains = platforms.DOMAINS.get(self.auth.type, ()) if self.auth and not self.auth.env and not self.platform else ()
        if domains and not {*domains} & {*web_addresses.domains(self.base_url)}:
            raise ValueError(
                f"auth without env is sent to hosts of {', '.join(domains)} only: state platform if this is a proxy"
            )
        return self

    @property
    def columns(self) -> Columns:
        columns = self.model_dump(exclude={"auth", *_ACCESS})
        access = {name: value for name in _ACCESS if (value := getattr(self, name))}
        if self.auth:
            access["auth"], columns["api_key_env"] = self.auth.stated, self.auth.env or self.api_key_env
        return {**columns, **self.promise, "access": access}


_ACCESS = ("headers", "query", "paths", "platform")
_Threshold = Annotated[int, _between_1_and(rates.ABOVE_MAX)]
_RATES: dict[str, Any] = {
    name: (_PriceNanos, ...) if name in meters.REQUIRED else (_PriceNanos | None, None) for name in meters.BY_NAME
}
# The fields of every table of rates: a rate for each meter, in nanodollars.
_RatesTable: Any = pydantic.create_model("_RatesTable", __base__=_Table, **_RATES)


class BandTable(_RatesTable):  # type: ignore[misc]  # made of the list of meters
    """One of ``above``: the rates of a prompt with more tokens than ``prompt_tokens``."""

    prompt_tokens: _Threshold


class TierTable(_RatesTable):  # type: ignore[misc]
    """The rates of a service tier. ``above`` that is stated, though empty, says that there is no other band."""

    above: list[BandTable] = []

    @pydantic.field_validator("above")
    @classmethod
    def _are_different(cls, bands: list[BandTable]) -> list[BandTable]:
        for threshold in _repeated(band.prompt_tokens for band in bands):
            raise ValueError(f"has two tables with prompt_tokens = {threshold}")
        return bands

    def rates(self, tier: str) -> Iterator[Rate]:
        for table, threshold in ((self, 0), *((band, band.prompt_tokens) for band in self.above)):
            for name in meters.BY_NAME:
                if (nanos := getattr(table, name)) is not None:
                    yield Rate(name, tier, threshold, nanos)


_TIERS: dict[str, Any] = {tier: (TierTable | None, None) for tier in meters.TIERS}
_WithTiers: Any = pydantic.create_model("_WithTiers", __base__=TierTable, **_TIERS)


def _with_tier_tables(values: Any) -> Any:
    """Return a price with a table for each tier that is written flat, as ``flex_input``, unless it has one already."""
    if not isinstance(values, dict):
        return values
    whole = {name: value for name, value in values.items() if not (tier := _flat_tier(name)) or tier in values}
    tables: dict[str, dict[str, Any]] = {}
    for name in values.keys() - whole.keys():
        tables.setdefault(_flat_tier(name), {})[name.partition("_")[2]] = values[name]
    return whole | tables


def _flat_tier(name: object) -> str:
    """Return "flex" of ``flex_input``, the rate of a tier among those of the standard one, and "" of other names."""
    _, tier, above = rates.parse_name(str(name)) or ("", "", 0)
    return "" if above else tier


class CostTable(_WithTiers):  # type: ignore[misc]
    """The ``cost`` of a route."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _has_tables_of_tiers(cls, values: Any) -> Any:
        return _with_tier_tables(values)

    @property
    def places(self) -> dict[str, TierTable]:
        """The table of each service tier, of which "" is the standard one."""
        tables = {tier: getattr(self, tier) for tier in meters.TIERS}
        return {rates.STANDARD: self, **{tier: table for tier, table in tables.items() if table is not None}}

    @property
    def sheet(self) -> RateSheet:
        return RateSheet(rate for tier, table in self.places.items() for rate in table.rates(tier))


def _moment(day: object) -> datetime.datetime:
    """The begin of a price: a day in UTC, or a date with a time and its offset."""
    if isinstance(day, datetime.datetime):
        if day.tzinfo is None:
            raise ValueError("needs an offset after its time, such as Z")
        try:
            return day.astimezone(datetime.UTC)
        except OverflowError:
            raise ValueError(f"{day} is not a possible time") from None
    if not isinstance(day, datetime.date):
        raise PydanticKnownError("date_type")
    return datetime.datetime.combine(day, datetime.time(), datetime.UTC)


class PriceTable(CostTable):
    """A ``price`` of a model. ``starts_at`` is when it begins: ``from`` in the file; None: it holds already."""

    starts_at: Annotated[datetime.datetime | None, pydantic.PlainValidator(_moment)] = pydantic.Field(None, alias="from")

    @pydantic.model_validator(mode="after")
    def _has_room_for_the_markup(self) -> "PriceTable":
        markup.add_to_sheet(self.sheet)
        return self


def _stated(rule: msgspec.structs.FieldInfo) -> Any:
    """Return the field of a rule that a file may state: an array stands for a tuple."""
    items: Any = get_args(rule.type)
    return (list[items[0]] if get_origin(rule.type) is tuple else rule.type, None)


_RULES: dict[str, Any] = {rule.name: _stated(rule) for rule in msgspec.structs.fields(chat.ModelRules)}
# The ``rules`` of a model or of a route, in the words of ``chat.ModelRules``.
RulesTable: Any = pydantic.create_model("RulesTable", __base__=_Table, **_RULES)


class RouteTable(_PromiseTable):
    """One of the ``routes`` of a model."""

    provider: Annotated[str, _text(50)]
    upstream_model: Annotated[str, _text(200)]
    api: Annotated[str, _one_of(Route.Api.values)] = Route.Api.CHAT.value
    priority: _SmallCount = 1
    weight: _SmallCount = 1
    cost: CostTable | None = None
    rules: RulesTable | None = None

    @pydantic.field_validator("provider")
    @classmethod
    def _is_known(cls, provider: str, info: pydantic.ValidationInfo) -> str:
        assert info.context is not None
        if provider not in info.context:
            raise ValueError(f"{provider!r} is neither declared under [providers] nor known already")
        return provider


_STATED_COLUMNS = {"is_enabled", "ends_on", "successor_id"}
_ALWAYS = datetime.datetime.min.replace(tzinfo=datetime.UTC)  # the begin of a price without from
_NO_OUTPUT = {"max_output_tokens": 1, "reasoning": False}  # one, because every model has a maximum


def _without_output(values: Any, inner: str = "") -> Any:
    """Return a table of rates, or the table ``inner`` in it, with a price of output, if it has none: nothing."""
    values = _with_tier_tables(values)
    if not isinstance(values, dict):
        return values
    if inner:
        return {**values, inner: _without_output(values[inner])} if inner in values else values
    places = {name: _without_output(values[name]) for name in meters.TIERS if name in values}
    bands = {"above": [_without_output(band) for band in values["above"]]} if isinstance(values.get("above"), list) else {}
    return {"output": "0", **values, **places, **bands}


class ModelTable(_Table):
    """[models."ID"]"""

    name: Annotated[str, _text(200)]
    maker: Annotated[str, _text(100)] = pydantic.Field(alias="provider")
    kind: Annotated[str, _one_of(ModelKind.values)] = ModelKind.CHAT.value
    category: Annotated[str, _one_of(Category.values)] = Category.GENERAL.value
    context_window: _Count
    max_output_tokens: _Count
    image_support: bool = False
    image_tokens_max: _Count = IMAGE_TOKENS_MAX
    function_calling: bool = False
    reasoning: bool | None = None
    requests_in_flight_max: _Count | None = None
    commercial_use: bool = False
    license: Annotated[str, _text(100)] | None = None
    is_enabled: bool | None = pydantic.Field(None, alias="enabled")
    ends_on: datetime.date | None = None
    successor_id: Annotated[str, _text(200)] | None = pydantic.Field(None, alias="successor")
    prices: list[PriceTable] = pydantic.Field([], alias="price")
    rules: RulesTable | None = None
    routes: list[RouteTable] = []

    @pydantic.model_validator(mode="before")
    @classmethod
    def _generates_no_tokens(cls, values: Any) -> Any:
        """Let a model that makes embeddings say nothing of tokens that it would generate, and of their price."""
        if not isinstance(values, dict) or values.get("kind") != ModelKind.EMBEDDING:
            return values
        given: dict[str, Any] = {name: value for name, value in _NO_OUTPUT.items() if name not in values}
        for name, inner in (("price", ""), ("routes", "cost")):
            if isinstance(values.get(name), list):
                given[name] = [_without_output(each, inner) for each in values[name]]
        return {**values, **given}

    @pydantic.model_validator(mode="before")
    @classmethod
    def _has_list_of_prices(cls, values: Any) -> Any:
        """One table of a price is a list of one. This runs first: pydantic begins with the last one of these."""
        is_one = isinstance(values, dict) and "price" in values and not isinstance(values["price"], list)
        return {**values, "price": [values["price"]]} if is_one else values

    @pydantic.field_validator("prices")
    @classmethod
    def _begin_at_different_times(cls, prices: list[PriceTable]) -> list[PriceTable]:
        if not prices:
            raise ValueError("has no table: leave it out to keep the price that there is")
        for start in _repeated(price.starts_at for price in prices):
            raise ValueError(f"has two tables {f'from {start:%Y-%m-%d %H:%M:%S} UTC' if start else 'without from'}")
        return prices

    @pydantic.field_validator("max_output_tokens")
    @classmethod
    def _fits_the_context_window(cls, tokens: int, info: pydantic.ValidationInfo) -> int:
        if tokens > info.data.get("context_window", tokens):
            raise ValueError(f"{tokens} is more than the context_window")
        return tokens

    @pydantic.field_validator("routes")
    @classmethod
    def _have_apis(cls, routes: list[RouteTable], info: pydantic.ValidationInfo) -> list[RouteTable]:
        is_embedding = info.data.get("kind") == ModelKind.EMBEDDING
        for route in routes:
            try:
                rules.check_api(route.api, (info.context or {})[route.provider], is_embedding=is_embedding)
            except ValueError as error:
                raise ValueError(f"api {error}") from None
        return routes

    @pydantic.field_validator("routes")
    @classmethod
    def _are_different(cls, routes: list[RouteTable]) -> list[RouteTable]:
        costs: dict[str, CostTable] = {}
        for route in routes:
            if route.cost is not None and costs.setdefault(route.provider, route.cost).sheet != route.cost.sheet:
                raise ValueError(f"declares two costs of {route.provider!r}: a provider has one for each model")
        for provider, upstream_model in _repeated((route.provider, route.upstream_model) for route in routes):
            raise ValueError(f"declares {provider!r} and {upstream_model!r} twice")
        return routes

    def prices_from(self, now: datetime.datetime) -> dict[datetime.datetime | None, PriceTable]:
        """Return the price that holds now, the one that began last, as None, and after it the later ones by their times."""
        dated = {price.starts_at or _ALWAYS: price for price in self.prices}
        begun = [start for start in dated if start <= now]
        current: dict[datetime.datetime | None, PriceTable] = {None: dated[max(begun)]} if begun else {}
        return current | {start: dated[start] for start in sorted(dated) if start > now}

    @property
    def columns(self) -> Columns:
        """The columns of the model. Those that belong to staff as well are among them only if the table states them."""
        columns = self.model_dump(exclude={"prices", "routes", "rules"})
        return {name: value for name, value in columns.items() if value is not None or name not in _STATED_COLUMNS}

    def rules_of(self, route: RouteTable) -> Columns:
        """Return the rules that the file states for a route: those of the model, and instead of them its own."""
        stated = [table.model_dump(exclude_unset=True) for table in (self.rules, route.rules) if table is not None]
        return {name: value for table in stated for name, value in table.items()}


_AnyProvider = Annotated[
    Annotated[ProviderTable, pydantic.Tag("echo")] | Annotated[HttpProviderTable, pydantic.Tag("http")],
    pydantic.Discriminator(
        lambda values: "echo" if isinstance(values, dict) and values.get("kind") == Provider.Kind.ECHO else "http"
    ),
]


class CatalogFile(_Table):
    catalog: About = About()
    providers: dict[_ProviderName, _AnyProvider] = {}
    models: dict[Annotated[str, pydantic.AfterValidator(rules.clean_model_id)], ModelTable] = {}


def declared_providers(values: dict[str, Any]) -> dict[str, Any]:
    """Return the kinds of the providers in a parsed file, by name, valid or not."""
    declared = values.get("providers")
    if not isinstance(declared, dict):
        return {}
    return {name: table.get("kind") if isinstance(table, dict) else None for name, table in declared.items()}


def validate(values: dict[str, Any], *, known_providers: Mapping[str, Any]) -> CatalogFile:
    """Validate a parsed file, whose routes may lead to ``known_providers``, each with its kind. Raises InvalidCatalog."""
    try:
        return CatalogFile.model_validate(values, context=known_providers)
    except pydantic.ValidationError as invalid:
        raise InvalidCatalog([_sentence(error, values) for error in invalid.errors(include_url=False)]) from None


# In words, by their names in errors of pydantic and in Python.
_TYPES = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number with a fraction",
    **dict.fromkeys(("str", "string"), "text"),
    "list": "a list",
    **dict.fromkeys(("dict", "model"), "a table"),
    "date": "a date",
    "datetime": "a date with a time",
    "time": "a time",
}


def _sentence(error: ErrorDetails, values: dict[str, Any]) -> str:
    """Name table, field and mistake: ``[models.m] price.input: is missing``. Repeats no value that may be a secret."""
    location = error["loc"]
    if location[0] == "providers" and location[2:3] != ("[key]",):
        location = (*location[:2], *location[3:])  # without the tag of the kind
    return f"{_place(_as_written(location, values))} {_problem(error, location)}"


def _as_written(location: Sequence[str | int], values: Any) -> list[str | int]:
    """Return the location in the file, where one table stands for a list, and ``flex_input`` for ``input`` of a table."""
    path: list[str | int] = []
    flat_tier = ""
    for step in location:
        if isinstance(step, int):
            if isinstance(values, list):
                path.append(step)
                values = values[step]
            continue
        table = values if isinstance(values, dict) else {}
        if step in meters.TIERS and step not in table:
            flat_tier = f"{step}_"
            continue
        path.append(f"{flat_tier}{step}")
        values = table.get(step)
    return path


def _place(location: Sequence[str | int]) -> str:
    tables = 1 if location[0] == "catalog" else 2
    if location[0] not in {"catalog", "providers", "models"} or len(location) <= tables:
        return f"{_path(location)}:"
    table = f"[{_path(location[:tables])}]"
    return table if location[tables] == "[key]" else f"{table} {_path(location[tables:])}:"


def _path(location: Sequence[str | int]) -> str:
    keys = (step if isinstance(step, int) or re.fullmatch(r"[A-Za-z0-9_-]+", step) else f'"{step}"' for step in location)
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


def _problem(error: ErrorDetails, location: Sequence[str | int]) -> str:
    kind = error["type"]
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden" and location[0] == "providers" and location[-1] == "drains":
        return "is no longer known: delete it. Every reply is read to its end now, unless you write cancels = true"
    if kind == "extra_forbidden":
        table = _table_at(error["loc"][:-1])
        if issubclass(table, CostTable) and (tier := _flat_tier(location[-1])):
            return f"is given beside the table {tier}: write it in there"
        fields = table.model_fields
        return f"is not known here; known are {', '.join(field.alias or name for name, field in fields.items())}"
    if kind == "value_error":
        return str(error["ctx"]["error"])
    if wanted := _TYPES.get(kind.removesuffix("_type")):
        return f"must be {wanted}, not {_TYPES[type(error['input']).__name__]}"
    return error["msg"]


# By the names on the way to it, without the names and numbers of entries.
_TABLES: dict[tuple[str, ...], Any] = {
    (): CatalogFile,
    ("catalog",): About,
    ("providers", "echo"): ProviderTable,
    ("providers", "http"): HttpProviderTable,
    ("providers", "http", "auth"): AuthTable,
    ("models",): ModelTable,
    ("models", "routes"): RouteTable,
    ("models", "rules"): RulesTable,
    ("models", "routes", "rules"): RulesTable,
    ("models", "price"): PriceTable,
    ("models", "routes", "cost"): CostTable,
}


def _table_at(location: Sequence[str | int]) -> type[_Table]:
    names = tuple(step for place, step in enumerate(location) if place != 1 and isinstance(step, str))
    table: type[_Table] = _TABLES.get(names) or (BandTable if names[-1] == "above" else TierTable)
    return table
