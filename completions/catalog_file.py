"""The catalogue file: TOML in, and providers, models, dated prices and routes are as it says.

``read`` checks everything and names every mistake by file, table and field; ``apply`` writes, in one transaction, only what
differs. What the file rules, and what it leaves alone:

- Providers and models it names are made or brought in line; those it does not name stay as they are.
- A model's routes become exactly the file's: one that is gone is deleted (completions remember their provider, not a route).
- A price that differs from the one in force becomes a new row, effective now. Old ones stay: completions refer to them, and
  for the same reason a file without a price takes none away.
- The switches are the operator's: ``is_enabled`` of a provider or a route is never touched, and a model's only if its table
  has ``enabled``.
- Secrets are not in it: a provider's table names an environment variable.
"""

import datetime
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.db import connection, models, transaction

from billing import money
from completions import catalog
from completions.models import Category, LanguageModel, Price, Provider, Route

BUILT_IN = Path(__file__).parent / "catalogue.toml"

Columns = dict[str, Any]  # column -> value, as the row shall have it


class InvalidCatalogue(Exception):
    """``errors`` has a sentence for everything that is wrong. Nothing was written."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


@dataclass(frozen=True)
class ModelTable:
    """One model as the file wants it. ``routes``: (provider, upstream model) -> priority."""

    columns: Columns
    price: Columns | None
    routes: dict[tuple[str, str], int]


@dataclass(frozen=True)
class Catalogue:
    """What was read, by slug and by model id. ``as_of`` is the day of the prices, if the file says it."""

    as_of: datetime.date | None
    providers: dict[str, Columns]
    models: dict[str, ModelTable]


# --- Reading: pure ----------------------------------------------------------------------------------------------------


def read(paths: Iterable[Path], *, known_providers: Iterable[str] = ()) -> Catalogue:
    """What the files say together: a table of a later file replaces the same table of an earlier one.

    ``known_providers`` may be routed to without being declared. Raises InvalidCatalogue.
    """
    errors: list[str] = []
    as_of: datetime.date | None = None
    declared: dict[str, Columns] = {}
    entries: dict[str, ModelTable] = {}
    known = set(known_providers)
    for path in paths:
        top = _Table(_parse(path, errors), file=path.name, name="", errors=errors)
        about = top.table("catalog", default={})
        as_of = about.take("as_of", datetime.date, default=as_of)
        about.finish()
        declared |= {table.key: _provider(table) for table in top.tables("providers")}
        known |= declared.keys()
        entries |= {table.key: _model(table, known) for table in top.tables("models")}
        top.finish()
    if errors:
        raise InvalidCatalogue(errors)
    return Catalogue(as_of=as_of, providers=declared, models=entries)


def _parse(path: Path, errors: list[str]) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        errors.append(f"{path}: {error.strerror or 'cannot be read'}")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        errors.append(f"{path.name}: is not TOML: {error}")
    return {}


def _provider(table: "_Table") -> Columns:
    if not re.fullmatch(r"[-a-zA-Z0-9_]{1,50}", table.key):
        table.note("", "a provider's name has 1-50 letters, digits, hyphens and underscores")
    columns: Columns = {"kind": table.choice("kind", Provider.Kind.values), "base_url": "", "api_key_env": ""}
    if columns["kind"] != Provider.Kind.ECHO:
        columns["base_url"] = table.checked("base_url", clean_base_url)
        columns["api_key_env"] = table.checked("api_key_env", clean_api_key_env, default=None) or ""
    table.finish()
    return columns


def _model(table: "_Table", known_providers: set[str]) -> ModelTable:
    try:
        clean_model_id(table.key)
    except ValueError as error:
        table.note("", str(error))
    columns: Columns = {
        "name": table.text("name", characters_max=200),
        "provider": table.text("provider", characters_max=100),
        "category": table.choice("category", Category.values, default=Category.GENERAL.value),
        "context_window": table.integer("context_window", maximum=2**31 - 1),
        "max_output_tokens": table.integer("max_output_tokens", maximum=2**31 - 1),
        "image_support": table.take("image_support", bool, default=False),
        "function_calling": table.take("function_calling", bool, default=False),
        "commercial_use": table.take("commercial_use", bool, default=False),
        "license": table.text("license", characters_max=100, default=None),
    }
    if table.has("enabled"):
        columns["is_enabled"] = table.take("enabled", bool)
    if (columns["max_output_tokens"] or 0) > (columns["context_window"] or 2**31):
        table.note("max_output_tokens", f"{columns['max_output_tokens']} is more than the context_window")
    price = _price(table.table("price")) if table.has("price") else None
    routes = _routes(table, known_providers)
    table.finish()
    return ModelTable(columns=columns, price=price, routes=routes)


def _price(table: "_Table") -> Columns:
    columns = {
        "input_nanos": table.price("input"),
        "output_nanos": table.price("output"),
        "cached_input_nanos": table.price("cached_input", default=None),
        "cache_write_nanos": table.price("cache_write", default=None),
    }
    table.finish()
    return columns


def _routes(table: "_Table", known_providers: set[str]) -> dict[tuple[str, str], int]:
    routes: dict[tuple[str, str], int] = {}
    for route in table.rows("routes"):
        provider = route.text("provider", characters_max=50) or ""
        target = (provider, route.text("upstream_model", characters_max=200) or "")
        if provider and provider not in known_providers:
            route.note("provider", f"{provider!r} is neither declared under [providers] nor known already")
        if all(target) and target in routes:
            route.note("", f"declares {provider!r} and {target[1]!r} a second time")
        routes[target] = route.integer("priority", maximum=32_767, default=1)
        route.finish()
    return routes


def clean_model_id(model_id: str) -> str:
    """Raises ValueError. Ids are part of URLs, so none of their segments may vanish in one."""
    is_line = model_id.isprintable() and " " not in model_id
    if len(model_id) > 200 or not is_line or {"", ".", ".."} & set(model_id.split("/")):
        raise ValueError('a model id has at most 200 characters, no spaces, and something before and after each "/"')
    return model_id


def clean_base_url(url: str) -> str:
    """The address without a trailing slash. Raises ValueError, without repeating what may be a secret in it."""
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise ValueError("is not a URL") from None
    if parts.scheme not in {"http", "https"} or not has_host:
        raise ValueError("must begin with http:// or https:// and a host")
    if "@" in parts.netloc:
        raise ValueError("must not carry a user name or password")
    if "?" in url or "#" in url:
        raise ValueError("must end with its path: no query and no fragment")
    if not url.isprintable() or " " in url or len(url) > 200:
        raise ValueError("must be at most 200 characters without spaces")
    return url.rstrip("/")


def clean_api_key_env(name: str) -> str:
    """Raises ValueError, without repeating what may be the key itself."""
    if not re.fullmatch(r"[A-Z][A-Z0-9_]{0,99}", name):
        raise ValueError("must be the name of an environment variable, such as OPENAI_API_KEY")
    if name.startswith("GATEWAY_") or name in {"DATABASE_URL", "REDIS_URL"}:
        raise ValueError("names a secret of the gateway itself, which no provider may be sent")
    return name


_NEEDED: Any = object()
_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number with a fraction",
    str: "text",
    list: "a list",
    dict: "a table",
    datetime.date: "a date",
    datetime.datetime: "a date with a time",
    datetime.time: "a time",
}


class _Table:
    """One table of the file. Hands out its fields once, notes what is wrong with them, and finally what is left over.

    A field that is wrong is handed out as None: there is an error then, and nothing will be written.
    """

    def __init__(
        self, values: dict[str, Any], *, file: str, name: str, errors: list[str], key: str = "", prefix: str = ""
    ) -> None:
        self.key = key
        self._values = dict(values)
        self._file, self._name, self._prefix, self._errors = file, name, prefix, errors
        self._fields: list[str] = []

    def note(self, field: str, problem: str) -> None:
        where = f"{self._prefix}.{field}".strip(".") if self._prefix else field
        parts = [f"{self._file}:", f"[{self._name}]" if self._name else "", f"{where}:" if where else "", problem]
        self._errors.append(" ".join(filter(None, parts)))

    def has(self, field: str) -> bool:
        return field in self._values

    def take(self, field: str, kind: type, *, default: Any = _NEEDED) -> Any:
        """The value of exactly this type: ``true`` is not a whole number, and a date is not a date with a time."""
        self._fields.append(field)
        if field not in self._values:
            if default is _NEEDED:
                self.note(field, "is missing")
            return None if default is _NEEDED else default
        value = self._values.pop(field)
        if type(value) is not kind:
            self.note(field, f"must be {_KINDS[kind]}, not {_KINDS[type(value)]}")
            return None
        return value

    def text(self, field: str, *, characters_max: int, default: Any = _NEEDED) -> str | None:
        value = self.take(field, str, default=default)
        if value is None or (value.isprintable() and value == value.strip() and 1 <= len(value) <= characters_max):
            return value
        self.note(field, f"must have 1-{characters_max} printable characters, and no space at its ends")
        return None

    def integer(self, field: str, *, maximum: int, default: Any = _NEEDED) -> Any:
        value = self.take(field, int, default=default)
        if value is not None and not 1 <= value <= maximum:
            self.note(field, f"{value} is not between 1 and {maximum}")
        return value

    def choice(self, field: str, choices: list[str], *, default: Any = _NEEDED) -> Any:
        value = self.take(field, str, default=default)
        if value is not None and value not in choices:
            self.note(field, f"{value!r} is not one of {', '.join(choices)}")
        return value

    def checked(self, field: str, clean: Callable[[str], str], *, default: Any = _NEEDED) -> str | None:
        """Text as ``clean`` gives it back; it raises ValueError for what it does not accept."""
        value = self.take(field, str, default=default)
        try:
            return None if value is None else clean(value)
        except ValueError as error:
            self.note(field, str(error))
        return None

    def price(self, field: str, *, default: Any = _NEEDED) -> int | None:
        """Nanodollars per million tokens."""
        if type(self._values.get(field)) in {float, int}:
            self.note(field, f'write the price as text, {field} = "{self._values.pop(field)}": a number in a file gets rounded')
            return None
        value = self.take(field, str, default=default)
        try:
            return None if value is None else money.price_nanos(value)
        except ValueError as error:
            self.note(field, str(error))
        return None

    def table(self, field: str, *, default: Any = _NEEDED) -> "_Table":
        """A table in this table. If it is none, that is said once: what would be missing in it is not."""
        values = self.take(field, dict, default=default)
        errors = [] if values is None else self._errors
        name, prefix = (self._name, field) if self._name else (field, "")
        return _Table(values or {}, file=self._file, name=name, errors=errors, prefix=prefix)

    def tables(self, field: str) -> "list[_Table]":
        """The named tables in a table, such as every [providers.name]."""
        return [
            _Table(values, file=self._file, name=f"{field}.{_toml_key(key)}", errors=self._errors, key=key)
            for key, values in (self.take(field, dict, default={}) or {}).items()
            if self._is_table(values, f"{field}.{_toml_key(key)}")
        ]

    def rows(self, field: str) -> "list[_Table]":
        """The tables in a list."""
        return [
            _Table(values, file=self._file, name=self._name, errors=self._errors, prefix=f"{field}[{index}]")
            for index, values in enumerate(self.take(field, list, default=[]) or [])
            if self._is_table(values, f"{field}[{index}]")
        ]

    def _is_table(self, values: object, where: str) -> bool:
        if not isinstance(values, dict):
            self.note(where, "must be a table")
        return isinstance(values, dict)

    def finish(self) -> None:
        for left_over in self._values:
            self.note(left_over, f"is not known here; known are {', '.join(self._fields)}")


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else f'"{key}"'


# --- Writing: what differs ---------------------------------------------------------------------------------------------


@dataclass
class Count:
    created: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0

    @property
    def written(self) -> int:
        return self.created + self.updated + self.deleted


@dataclass
class Report:
    """What a load did. ``warnings`` name the models that cannot be served."""

    as_of: datetime.date | None
    providers: Count = field(default_factory=Count)
    models: Count = field(default_factory=Count)
    prices: Count = field(default_factory=Count)
    routes: Count = field(default_factory=Count)
    warnings: list[str] = field(default_factory=list)

    @property
    def written(self) -> int:
        return sum(count.written for count in (self.providers, self.models, self.prices, self.routes))


def apply(catalogue: Catalogue) -> Report:
    """Make the rows as the catalogue says, all or none. A second time it changes nothing."""
    report = Report(as_of=catalogue.as_of)
    with transaction.atomic(), connection.cursor() as cursor:
        # Two hosts that start at once load one after the other, and the second finds nothing to do.
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('completions.catalogue'))")
        _write_rows(Provider, catalogue.providers, report.providers)
        _write_rows(LanguageModel, {model_id: table.columns for model_id, table in catalogue.models.items()}, report.models)
        _write_prices(catalogue.models, report)
        _write_routes(catalogue.models, report)
        loaded = LanguageModel.objects.filter(pk__in=catalogue.models)
        report.warnings += [f"{model.pk} {lack}, so it is not served" for model, lack in catalog.incomplete(loaded)]
    return report


def _write_rows(row_class: type[models.Model], wanted: Mapping[str, Columns], count: Count) -> None:
    existing = row_class._default_manager.in_bulk(wanted)
    for key, columns in wanted.items():
        if key in existing:
            _update(existing[key], columns, count)
        else:
            row_class._default_manager.create(pk=key, **columns)
            count.created += 1


def _update(row: models.Model, columns: Columns, count: Count) -> None:
    changed = [name for name, value in columns.items() if getattr(row, name) != value]
    if not changed:
        count.unchanged += 1
        return
    for name in changed:
        setattr(row, name, columns[name])
    row.save(update_fields=changed)
    count.updated += 1


def _write_prices(tables: Mapping[str, ModelTable], report: Report) -> None:
    in_force = {price.model_id: price for price in Price.objects.in_force().filter(model__in=tables)}
    for model_id, table in tables.items():
        current = in_force.get(model_id)
        if table.price is None:
            continue
        if current and all(getattr(current, name) == value for name, value in table.price.items()):
            report.prices.unchanged += 1
        else:
            Price.objects.create(model_id=model_id, **table.price)
            report.prices.created += 1


def _write_routes(tables: Mapping[str, ModelTable], report: Report) -> None:
    existing = {
        (route.model_id, route.provider_id, route.upstream_model): route for route in Route.objects.filter(model__in=tables)
    }
    for model_id, table in tables.items():
        for (provider, upstream_model), priority in table.routes.items():
            route = existing.pop((model_id, provider, upstream_model), None)
            if route is not None:
                _update(route, {"priority": priority}, report.routes)
            else:
                Route.objects.create(model_id=model_id, provider_id=provider, upstream_model=upstream_model, priority=priority)
                report.routes.created += 1
    for route in existing.values():
        route.delete()
        report.routes.deleted += 1
