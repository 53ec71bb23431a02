"""The catalog file: TOML in, and providers, models, dated prices and routes are as it says.

``read`` checks everything and names every mistake by file, table and field; ``apply`` writes, in one transaction, only what
differs. What the file rules, and what it leaves alone:

- Providers and models it names are made or brought in line; those it does not name stay as they are.
- A model's routes become exactly the file's: one that is gone is deleted (completions remember their provider, not a route).
- A price that differs from the one in force becomes a new row, effective now. Old ones stay: completions refer to them, and
  for the same reason a file without a price takes none away.
- The switches are the operator's: ``is_enabled`` of a provider or a route is never touched, and a model's only if its table
  has ``enabled``.
- Secrets are not in it: a provider's table names an environment variable. A key that was stored in the admin stays as long
  as the address does.
"""

import datetime
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import models, transaction

from billing import money
from completions.catalog import lookup, rules, toml_table, writes
from completions.catalog.toml_table import NEEDED, Table
from completions.models import Category, LanguageModel, Price, Provider, Route

BUILT_IN = Path(__file__).parent / "catalog.toml"

Columns = dict[str, Any]  # column -> value, as the row shall have it


class InvalidCatalog(Exception):
    """``errors`` has a sentence for everything that is wrong. Nothing was written."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


@dataclass(frozen=True)
class ModelTable:
    """One model as the file wants it. ``routes``: (provider, upstream model) -> priority and weight."""

    columns: Columns
    price: Columns | None
    routes: dict[tuple[str, str], Columns]


@dataclass(frozen=True)
class Catalog:
    """What was read, by slug and by model id. ``as_of`` is the day of the prices, if the file says it."""

    as_of: datetime.date | None
    providers: dict[str, Columns]
    models: dict[str, ModelTable]


# --- Reading: pure ----------------------------------------------------------------------------------------------------


def read(paths: Iterable[Path], *, known_providers: Iterable[str] = ()) -> Catalog:
    """What the files say together: a table of a later file replaces the same table of an earlier one.

    ``known_providers`` may be routed to without being declared. Raises InvalidCatalog.
    """
    errors: list[str] = []
    as_of: datetime.date | None = None
    declared: dict[str, Columns] = {}
    entries: dict[str, ModelTable] = {}
    known = set(known_providers)
    for path in paths:
        top = toml_table.read(path, errors)
        about = top.table("catalog", default={})
        as_of = about.take("as_of", datetime.date, default=as_of)
        about.finish()
        declared |= {table.key: _provider(table) for table in top.tables("providers")}
        known |= declared.keys()
        entries |= {table.key: _model(table, known) for table in top.tables("models")}
        top.finish()
    if errors:
        raise InvalidCatalog(errors)
    return Catalog(as_of=as_of, providers=declared, models=entries)


def _provider(table: Table) -> Columns:
    if not re.fullmatch(r"[-a-zA-Z0-9_]{1,50}", table.key):
        table.note("", "a provider's name has 1-50 letters, digits, hyphens and underscores")
    columns: Columns = {"kind": table.choice("kind", Provider.Kind.values), "base_url": "", "api_key_env": ""}
    for deadline in ("connect_seconds", "first_byte_seconds", "idle_seconds", "total_seconds"):
        columns[deadline] = table.integer(deadline, maximum=7_200, default=None)
    columns["drains"] = table.take("drains", bool, default=False)
    if columns["kind"] != Provider.Kind.ECHO:
        columns["base_url"] = table.checked("base_url", rules.clean_base_url)
        columns["api_key_env"] = table.checked("api_key_env", rules.clean_api_key_env, default=None) or ""
    table.finish()
    return columns


def _model(table: Table, known_providers: set[str]) -> ModelTable:
    try:
        rules.clean_model_id(table.key)
    except ValueError as error:
        table.note("", str(error))
    columns: Columns = {
        "name": table.text("name", characters_max=200),
        "maker": table.text("provider", characters_max=100),
        "category": table.choice("category", Category.values, default=Category.GENERAL.value),
        "context_window": table.integer("context_window", maximum=2**31 - 1),
        "max_output_tokens": table.integer("max_output_tokens", maximum=2**31 - 1),
        "image_support": table.take("image_support", bool, default=False),
        "image_tokens_max": table.integer("image_tokens_max", maximum=2**31 - 1, default=6_000),
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


def _price(table: Table) -> Columns:
    columns = {
        "input_nanos": _price_nanos(table, "input"),
        "output_nanos": _price_nanos(table, "output"),
        "cached_input_nanos": _price_nanos(table, "cached_input", default=None),
        "cache_write_nanos": _price_nanos(table, "cache_write", default=None),
        "image_nanos": _price_nanos(table, "image", default=None),
    }
    table.finish()
    return columns


def _price_nanos(table: Table, field: str, *, default: Any = NEEDED) -> int | None:
    """Nanodollars per million tokens, or per image."""
    if table.has_number(field):
        number = table.number(field)
        table.note(field, f'write the price as text, {field} = "{number}": a number in a file gets rounded')
        return None
    return table.checked(field, money.price_nanos, default=default)


def _routes(table: Table, known_providers: set[str]) -> dict[tuple[str, str], Columns]:
    routes: dict[tuple[str, str], Columns] = {}
    for route in table.rows("routes"):
        provider = route.text("provider", characters_max=50) or ""
        target = (provider, route.text("upstream_model", characters_max=200) or "")
        if provider and provider not in known_providers:
            route.note("provider", f"{provider!r} is neither declared under [providers] nor known already")
        if all(target) and target in routes:
            route.note("", f"declares {provider!r} and {target[1]!r} a second time")
        routes[target] = {name: route.integer(name, maximum=32_767, default=1) for name in ("priority", "weight")}
        route.finish()
    return routes


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
    """What a load did. ``warnings`` name the models that cannot be served, and the providers that lost their stored key."""

    as_of: datetime.date | None
    providers: Count = field(default_factory=Count)
    models: Count = field(default_factory=Count)
    prices: Count = field(default_factory=Count)
    routes: Count = field(default_factory=Count)
    warnings: list[str] = field(default_factory=list)

    @property
    def written(self) -> int:
        return sum(count.written for count in (self.providers, self.models, self.prices, self.routes))


def apply(catalog: Catalog) -> Report:
    """Make the rows as the catalog says, all or none. A second time it changes nothing."""
    report = Report(as_of=catalog.as_of)
    with transaction.atomic():
        writes.lock_catalog()  # two hosts may start at once
        _write_providers(catalog.providers, report)
        _write_rows(LanguageModel, {model_id: table.columns for model_id, table in catalog.models.items()}, report.models)
        _write_prices(catalog.models, report)
        _write_routes(catalog.models, report)
        loaded = LanguageModel.objects.filter(pk__in=catalog.models)
        report.warnings += [
            f"{model.pk} {obstacle}, so it is not served" for model, obstacle in lookup.incomplete_models(loaded)
        ]
    return report


def _write_providers(wanted: Mapping[str, Columns], report: Report) -> None:
    _drop_keys_of_moved(wanted, report)
    _write_rows(Provider, wanted, report.providers)


def _drop_keys_of_moved(wanted: Mapping[str, Columns], report: Report) -> None:
    """A key is for the address it was entered for: whoever could point it at a host of theirs could read it."""
    for provider in Provider.objects.select_for_update().filter(pk__in=wanted).order_by("pk"):  # staff may be entering one
        if provider.sealed_api_key and provider.base_url != wanted[provider.pk]["base_url"]:
            Provider.objects.filter(pk=provider.pk).update(sealed_api_key="")
            report.warnings.append(f"provider {provider.pk} has a new address, so its stored key is forgotten")


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
        if table.price is None:
            continue
        if writes.set_price(model_id, in_force.get(model_id), table.price):
            report.prices.created += 1
        else:
            report.prices.unchanged += 1


def _write_routes(tables: Mapping[str, ModelTable], report: Report) -> None:
    existing = {
        (route.model_id, route.provider_id, route.upstream_model): route for route in Route.objects.filter(model__in=tables)
    }
    for model_id, table in tables.items():
        for (provider, upstream_model), columns in table.routes.items():
            route = existing.pop((model_id, provider, upstream_model), None)
            if route is not None:
                _update(route, columns, report.routes)
            else:
                Route.objects.create(model_id=model_id, provider_id=provider, upstream_model=upstream_model, **columns)
                report.routes.created += 1
    for route in existing.values():
        route.delete()
        report.routes.deleted += 1
