"""Maps the names at the sources to our models, and keeps the mapping as rows of ``Alias`` that staff can overrule.

An alias has one of three origins. Staff wrote it: it stays. The curated file has it: it follows the file. A rule or a declared
link found it (see ``rules``): every snapshot makes it anew, and without it if there are two candidates now, or none.
"""

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import transaction

from completions.models import Category, LanguageModel
from rankings.identity import rules
from rankings.identity.rules import OwnModel
from rankings.models import Alias, Profile, Snapshot, Source, Standing
from rankings.sources import registry

CURATED = Path(__file__).with_name("identities.toml")
SEVERAL_CONFIDENCE = 0.7  # the source lists a model in several efforts or dates, and which one is served is unknown

_EXPLICIT = {Alias.Method.CURATED, Alias.Method.STAFF}
_Key = tuple[str, str]  # the kind of a name, and the name


@dataclass(frozen=True)
class ChosenStanding:
    """The standing that counts for one of our models, and how sure we are that it is the same model (a share)."""

    standing: Standing
    confidence: float
    method: Alias.Method


def _alias_keys(standing: Standing) -> list[_Key]:
    """Return the keys under which an alias of this standing may have been written, the most specific first."""
    is_of_aa = standing.key_kind == "aa_id"
    kind, other = ("name", rules.normalized(standing.name)) if is_of_aa else ("id", standing.facts.get("id"))
    own = _folded(standing.key_kind, standing.external_key)
    return [own, (kind, other)] if other else [own]


def _folded(kind: str, key: str) -> _Key:
    return kind, key.casefold() if kind == "hf_repo" else key  # the Hub's names ignore case


@transaction.atomic
def load_curated(path: Path = CURATED) -> int:
    """Bring aliases and profiles up to date with the file, for models in the catalog. Return how many aliases changed."""
    tables: dict[str, dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["models"]
    model_ids = set(LanguageModel.objects.filter(pk__in=tables).values_list("pk", flat=True))
    for model_id in sorted(model_ids):
        wanted = {name: tables[model_id].get(name, default) for name, default in _PROFILE.items()}
        if not Profile.objects.filter(pk=model_id, **wanted).exists():
            Profile.objects.update_or_create(pk=model_id, defaults=wanted)
    wanted_aliases = [alias for model_id in sorted(model_ids) for alias in _curated(model_id, tables[model_id])]
    for alias in wanted_aliases:  # in place of those by rule or link of the same names
        same_name = Alias.objects.filter(source=alias.source, key_kind=alias.key_kind, external_key=alias.external_key)
        same_name.exclude(method__in=_EXPLICIT).delete()
    return _reconcile(Alias.objects.filter(method=Alias.Method.CURATED), wanted_aliases)


_PROFILE: dict[str, Any] = {"open_weights": False, "hf_repo": "", "effort": ""}


def curated_ids() -> set[str]:
    return set(tomllib.loads(CURATED.read_text(encoding="utf-8"))["models"])


def _curated(model_id: str, table: dict[str, Any]) -> Iterator[Alias]:
    named = dict(table.get("names", {}))
    if table.get("hf_repo"):
        named["HUGGINGFACE.hf_repo"] = [table["hf_repo"], *named.get("HUGGINGFACE.hf_repo", [])]
    for where, names in named.items():
        source, _, kind = where.partition(".")
        for name in names:
            yield Alias(source=source, key_kind=kind, external_key=name, model_id=model_id, method=Alias.Method.CURATED)


@transaction.atomic
def map_by_rules(snapshot: Snapshot) -> int:
    """Write aliases for the names of a snapshot that a link or a rule explains. Return how many aliases changed."""
    source = Source(snapshot.source)
    wanted = _by_rules(source, snapshot.standings.all(), _explicit(source))
    return _reconcile(Alias.objects.filter(source=source).exclude(method__in=_EXPLICIT), wanted)


def _by_rules(source: Source, standings: Iterable[Standing], explicit: dict[_Key, Alias]) -> Iterator[Alias]:
    candidates = own_models()
    for standing in _names(standings):
        if _first(explicit, standing) is None and (alias := rules.match(standing, candidates)):
            alias.source, alias.key_kind, alias.external_key = source, standing.key_kind, standing.external_key
            yield alias


def own_models() -> list[OwnModel]:
    """Return what identifies each model of the catalog."""
    repositories = dict(Profile.objects.values_list("pk", "hf_repo"))
    return [
        OwnModel(id=model_id, name=name, maker=maker, hf_repo=repositories.get(model_id, ""))
        for model_id, name, maker in LanguageModel.objects.values_list("pk", "name", "maker")
    ]


def _reconcile(existing: Any, wanted: Iterable[Alias]) -> int:
    """Change the rows of ``existing`` to the wanted ones, unless the name has another row. Return how many changed."""
    missing = {(row.source, row.key_kind, row.external_key): row for row in wanted}
    changed = 0
    for row in existing:
        new = missing.pop((row.source, row.key_kind, row.external_key), None)
        if new is None:
            row.delete()
        elif (row.model_id, row.method, row.confidence) != (new.model_id, new.method, new.confidence):
            row.model_id, row.method, row.confidence = new.model_id, new.method, new.confidence
            row.save(update_fields=["model", "method", "confidence"])
        else:
            continue
        changed += 1
    before = Alias.objects.count()
    Alias.objects.bulk_create(missing.values(), ignore_conflicts=True)
    return changed + Alias.objects.count() - before


def chosen_standings(snapshot: Snapshot) -> dict[Category, dict[str, ChosenStanding]]:
    """Return, by board and model id, the standing of each of our models: of several one that was chosen, else the worst."""
    return _chosen(snapshot.standings.all(), _by_key(Alias.objects.filter(source=snapshot.source)))


def expected_standings(source: Source, standings: Iterable[Standing]) -> dict[Category, dict[str, ChosenStanding]]:
    """Return what ``chosen_standings`` would if a snapshot with these standings were stored and mapped now. Writes nothing."""
    listed, explicit = list(standings), _explicit(source)
    return _chosen(listed, explicit | _by_key(_by_rules(source, listed, explicit)))


def _chosen(standings: Iterable[Standing], aliases: dict[_Key, Alias]) -> dict[Category, dict[str, ChosenStanding]]:
    found: dict[tuple[Category, str], list[tuple[Standing, Alias]]] = defaultdict(list)
    for standing in standings:
        alias = _first(aliases, standing)
        if alias is not None and alias.model_id is not None:
            found[Category(standing.board), alias.model_id].append((standing, alias))
    boards: dict[Category, dict[str, ChosenStanding]] = defaultdict(dict)
    for (board, model_id), candidates in found.items():
        written = [pair for pair in candidates if pair[1].method in _EXPLICIT] or candidates
        standing, alias = min(written, key=lambda pair: (pair[0].value, -pair[0].rank))
        confidence = alias.confidence if len(written) == 1 else min(alias.confidence, SEVERAL_CONFIDENCE)
        boards[board][model_id] = ChosenStanding(standing, confidence, Alias.Method(alias.method))
    return dict(boards)


def unmatched(snapshot: Snapshot) -> list[Standing]:
    """Return one standing for each name that has no alias, in the order of rank."""
    return _without_alias(snapshot, _by_key(Alias.objects.filter(source=snapshot.source)))


def count_unmatched() -> dict[str, int]:
    """Return for each source how many names of its latest snapshot have no alias. It takes three queries for all sources."""
    aliases = defaultdict(list)
    for alias in Alias.objects.all():
        aliases[alias.source].append(alias)
    latest = Snapshot.objects.filter(held_because="").order_by("source", "-id").distinct("source").prefetch_related("standings")
    shown = [snapshot for snapshot in latest if registry.spec(snapshot.source).may_be_shown()]
    return {each.source: len(_without_alias(each, _by_key(aliases[each.source]))) for each in shown}


def _without_alias(snapshot: Snapshot, aliases: dict[_Key, Alias]) -> list[Standing]:
    return [standing for standing in _names(snapshot.standings.all()) if _first(aliases, standing) is None]


def latest_snapshot(source: Source | str) -> Snapshot | None:
    """Return the snapshot to publish; None if there is none, or it must not be shown."""
    if not registry.spec(source).may_be_shown():
        return None
    return Snapshot.objects.filter(source=source, held_because="").order_by("-id").first()


def _names(standings: Iterable[Standing]) -> list[Standing]:
    """Return one standing for each name: that of its first board, in the order of rank."""
    first: dict[str, Standing] = {}
    order = {category: number for number, category in enumerate(Category)}
    for standing in sorted(standings, key=lambda row: (order[Category(row.board)], row.rank, row.external_key)):
        first.setdefault(standing.external_key, standing)
    return list(first.values())


def _explicit(source: Source) -> dict[_Key, Alias]:
    return _by_key(Alias.objects.filter(source=source, method__in=_EXPLICIT))


def _by_key(aliases: Iterable[Alias]) -> dict[_Key, Alias]:
    # Of two spellings of one name of the Hub, the staff's is last and replaces the other.
    in_order = sorted(aliases, key=lambda alias: alias.method == Alias.Method.STAFF)
    return {_folded(alias.key_kind, alias.external_key): alias for alias in in_order}


def _first(aliases: dict[_Key, Alias], standing: Standing) -> Alias | None:
    return next((aliases[key] for key in _alias_keys(standing) if key in aliases), None)
