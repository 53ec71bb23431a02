"""Loads catalog files: TOML that declares providers, models, dated prices and routes.

``read`` checks everything and names every mistake by file, table and field. ``apply`` writes only what differs, in one
transaction. What the file decides, and what it leaves alone:

- Providers and models that it names are created or updated; those that it does not name stay as they are.
- A model's routes become exactly the file's; others are deleted (completions refer to their provider, not to a route).
- A price that differs from the one in force becomes a new row, effective now. Old prices stay, because completions refer to
  them; for the same reason a file without a price removes none.
- Prices of the file that begin later begin at exactly their time. Where it dates the prices of a model, others that have not
  begun are withdrawn; where it does not, they stay, with a warning.
- What a provider charges is dated, too: another cost of a route is that of today, and of the days after it.
- The switches belong to the operator: ``is_enabled`` of a provider or a route is never changed, and a model's only if its
  table has ``enabled``. So do a model's end and its successor: a table without them leaves them as they are.
- Files hold no secrets: a provider's table names an environment variable. A key stored in the admin stays as long as the
  address stays, and a secret of a cloud as long as the type of its ``auth`` does.
"""

import datetime
import os
import pwd
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import models, transaction

from completions.catalog import lookup, markup, price_gaps, rules, tables, writes
from completions.catalog.sync import diff
from completions.catalog.tables import Columns, InvalidCatalog, ModelTable, ProviderTable
from completions.models import LanguageModel, Price, Provider, ProviderPrice, Route
from completions.pricing.rates import RateSheet
from gateway_project.db import pool

_Start = datetime.datetime | None  # of a price; None: now
BUILT_IN = Path(__file__).parent / "catalog.toml"


@dataclass(frozen=True)
class Catalog:
    """The tables of all files together, by slug and by model id. ``as_of`` is the day of the prices, if a file says it."""

    as_of: datetime.date | None
    providers: dict[str, ProviderTable]
    models: dict[str, ModelTable]


def read(paths: Iterable[Path], *, known_providers: Mapping[str, str] | None = None) -> Catalog:
    """Read the files: tables of later ones replace the same tables of earlier ones. Raises InvalidCatalog.

    Routes may lead to ``known_providers``, each with its kind, and to every provider declared so far.
    """
    errors: list[str] = []
    catalog = Catalog(as_of=None, providers={}, models={})
    kinds = dict(known_providers or {})
    for path in paths:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
            kinds |= tables.declared_providers(values)
            later = tables.validate(values, known_providers=kinds)
            as_of = later.catalog.as_of or catalog.as_of
            catalog = Catalog(as_of, catalog.providers | later.providers, catalog.models | later.models)
        except OSError as error:
            errors.append(f"{path}: {error.strerror or 'cannot be read'}{_advice(error)}")
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            errors.append(f"{path.name}: is not TOML: {error}")
        except InvalidCatalog as invalid:
            errors += [f"{path.name}: {error}" for error in invalid.errors]
    if errors:
        raise InvalidCatalog(errors)
    return catalog


def _advice(error: OSError) -> str:
    if not isinstance(error, PermissionError):
        return ""
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # it has no name, as in many containers
        user = f"the user {os.geteuid()}"
    return (
        f". This runs as {user}: copy the file to where that user may read it, such as /etc/model-gateway, and make it readable"
    )


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
    """The result of a load. ``later`` says which price begins when."""

    as_of: datetime.date | None
    providers: Count = field(default_factory=Count)
    models: Count = field(default_factory=Count)
    prices: Count = field(default_factory=Count)
    routes: Count = field(default_factory=Count)
    costs: Count = field(default_factory=Count)
    later: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def written(self) -> int:
        return sum(count.written for count in (self.providers, self.models, self.prices, self.routes, self.costs))


def apply(catalog: Catalog) -> Report:
    """Make the rows match the catalog, in one transaction. Raises InvalidCatalog for a successor that is no other model."""
    report = Report(as_of=catalog.as_of)
    with transaction.atomic():
        writes.lock_catalog()  # two hosts may start at the same time
        now = pool.database_time()
        providers = {slug: table.columns for slug, table in catalog.providers.items()}
        _forget_keys_of_moved_providers(providers, report)
        _write_rows(Provider, providers, report.providers)
        _write_rows(LanguageModel, {model_id: table.columns for model_id, table in catalog.models.items()}, report.models)
        _require_successors(catalog.models)
        _write_prices(catalog.models, report, now)
        _write_routes(catalog.models, report)
        _write_costs(catalog.models, report, now.date())
        loaded = LanguageModel.objects.filter(pk__in=catalog.models)
        report.warnings += [
            f"{model.pk} {obstacle}, so it is not served" for model, obstacle in lookup.incomplete_models(loaded)
        ]
        report.warnings += [
            f"{model_id} takes images and has no image_tokens_max: {tables.IMAGE_TOKENS_MAX:,} tokens are held for each image,"
            " and what its provider bills beyond that is your loss"
            for model_id, table in catalog.models.items()
            if table.image_support and "image_tokens_max" not in table.model_fields_set
        ]
        named = Provider.objects.filter(pk__in=catalog.providers).order_by("pk")
        report.warnings += [f"provider {each.pk}: {lacking}" for each in named if (lacking := rules.lacking_extra(each))]
        for model_id, table in catalog.models.items():
            gaps = (gap for price in table.prices_from(now).values() for gap in price_gaps.find(price, table.context_window))
            report.warnings += dict.fromkeys(f"{model_id} {gap}" for gap in gaps)
    return report


def _require_successors(wanted: Mapping[str, ModelTable]) -> None:
    successors = {model_id: table.successor_id for model_id, table in wanted.items() if table.successor_id}
    known = LanguageModel.objects.in_bulk(successors.values())
    unknown = [(id, successor) for id, successor in successors.items() if successor == id or successor not in known]
    if unknown:
        raise InvalidCatalog([f'[models."{id}"] successor: {successor!r} is no other model' for id, successor in unknown])


def _forget_keys_of_moved_providers(wanted: Mapping[str, Columns], report: Report) -> None:
    """Delete a stored key that an edited file would send to any host, or a cloud's secret that it would send as it is."""
    for provider in Provider.objects.select_for_update().filter(pk__in=wanted).order_by("pk"):  # staff may be entering one
        columns, before = wanted[provider.pk], Provider.secret_type(provider.access)
        is_moved = provider.base_url != columns["base_url"]
        if provider.sealed_api_key and (is_moved or before != Provider.secret_type(columns["access"])):
            Provider.objects.filter(pk=provider.pk).update(sealed_api_key="")
            what = "a new address" if is_moved else "another type of auth"
            report.warnings.append(f"provider {provider.pk} has {what}, so its stored key is forgotten")


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


def _write_prices(wanted: Mapping[str, ModelTable], report: Report, now: datetime.datetime) -> None:
    rows = Price.objects.filter(model__in=wanted)
    known: dict[str, dict[_Start, Price]] = {model_id: {} for model_id in wanted}
    for price in rows.in_force():
        known[price.model_id][None] = price
    for price in rows.filter(effective_from__gt=now).order_by("effective_from"):
        known[price.model_id][price.effective_from] = price
    for model_id, table in wanted.items():
        stated = {start: markup.add_to_sheet(each.sheet) for start, each in table.prices_from(now).items()}
        report.later += _describe_later(model_id, stated, known[model_id].get(None))
        _put_prices(model_id, stated, known[model_id], report.prices)
        unstated = [price for start, price in known[model_id].items() if start is not None]
        if any(price.starts_at for price in table.prices):
            for price in unstated:
                report.later.append(f"{price} is withdrawn")
                price.delete()
                report.prices.deleted += 1
        elif stated:
            report.warnings += [
                f"{price} is not in the file and stays: withdraw it in the admin, or date the prices of the model in the file"
                for price in unstated
            ]


def _put_prices(model_id: str, stated: Mapping[_Start, RateSheet], known: dict[_Start, Price], count: Count) -> None:
    """Write the prices that differ from those known for the same time, of which None is now. Leave the others in ``known``."""
    for start, sheet in stated.items():
        price = known.pop(start, None)
        if price is not None and price.sheet == sheet:
            count.unchanged += 1
            continue
        if price is not None and start is not None:  # it has not begun: no completion refers to it
            price.delete()
            count.updated += 1
        else:
            count.created += 1
        writes.set_price(model_id, sheet, starts_at=start)


def _describe_later(model_id: str, stated: Mapping[_Start, RateSheet], current: Price | None) -> Iterator[str]:
    """Yield what changes when: "m from 2027-01-01 00:00 UTC: input $2.00 -> $4.00 (+100 %)"."""
    before = current.sheet.values if current else {}
    for start, sheet in stated.items():
        if start is not None:
            change = diff.describe_price_change(before, sheet.values) or "the same as before"
            yield f"{model_id} from {start:%Y-%m-%d %H:%M} UTC: {change}"
        before = sheet.values


def _write_routes(wanted: Mapping[str, ModelTable], report: Report) -> None:
    existing = {
        (route.model_id, route.provider_id, route.upstream_model): route for route in Route.objects.filter(model__in=wanted)
    }
    for model_id, table in wanted.items():
        for target in table.routes:
            columns = {"api": target.api, "priority": target.priority, "weight": target.weight, "rules": table.rules_of(target)}
            columns |= target.promise
            route = existing.pop((model_id, target.provider, target.upstream_model), None)
            if route is not None:
                _update(route, columns, report.routes)
            else:
                key = {"model_id": model_id, "provider_id": target.provider, "upstream_model": target.upstream_model}
                Route.objects.create(**key, **columns)
                report.routes.created += 1
    for route in existing.values():
        route.delete()
        report.routes.deleted += 1


def _write_costs(wanted: Mapping[str, ModelTable], report: Report, today: datetime.date) -> None:
    rows = ProviderPrice.objects.filter(model__in=wanted, since__lte=today).order_by("model_id", "provider_id", "-since")
    in_force = {(row.model_id, row.provider_id): row for row in rows.distinct("model_id", "provider_id")}
    costs = {
        (model_id, route.provider): route.cost.sheet
        for model_id, table in wanted.items()
        for route in table.routes
        if route.cost is not None
    }
    for (model_id, provider), sheet in costs.items():
        known = in_force.get((model_id, provider))
        if known is not None and known.sheet == sheet:
            report.costs.unchanged += 1
            continue
        key: dict[str, Any] = {"model_id": model_id, "provider_id": provider, "since": today}
        ProviderPrice.objects.update_or_create(defaults={"rates": sheet.rows}, **key)
        report.costs.created += 1
