"""Whose models the sources mean: the curated file and the rules of ``identity``, kept as rows that staff can overrule.

Rows by staff always stand. Rows of the file follow the file. Rows that a rule or a link made are made anew from every
snapshot, so that they go when they no longer hold: when there is a second candidate, or no longer a first.
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
from rankings.identity.rules import Ours, Theirs
from rankings.models import Alias, Profile, Snapshot, Source, Standing
from rankings.sources import registry

CURATED = Path(__file__).with_name("identities.toml")
SEVERAL_CONFIDENCE = 0.7  # a source has a model in several efforts or dates, and nobody said which one is served

_EXPLICIT = {Alias.Method.CURATED, Alias.Method.STAFF}
_Key = tuple[str, str]  # a kind of name, and the name


@dataclass(frozen=True)
class Chosen:
    """The one standing that stands for one of our models on a board, and how sure it is that it is this model's."""

    standing: Standing
    confidence: float
    method: Alias.Method


# --- Names ---------------------------------------------------------------------------------------------------------


def theirs(standing: Standing, source: Source) -> Theirs:
    """What identity needs to know of a standing."""
    return Theirs(
        source=source,
        key_kind=standing.key_kind,
        external_key=standing.external_key,
        name=standing.name,
        organization=standing.organization,
        slug=standing.facts.get("slug") or standing.facts.get("id") or "",
        hf_repo=standing.facts.get("hf_repo") or (standing.external_key if standing.key_kind == "hf_repo" else ""),
    )


def keys(standing: Standing) -> list[_Key]:
    """The names under which somebody may have written an alias, the surest first."""
    own = _folded(standing.key_kind, standing.external_key)
    if standing.key_kind == "aa_id":
        return [own, ("name", rules.norm(standing.name))]
    if standing.facts.get("id"):
        return [own, ("id", standing.facts["id"])]
    return [own]


def _folded(kind: str, key: str) -> _Key:
    return kind, key.casefold() if kind == "hf_repo" else key  # the Hub's names ignore case


# --- The curated file ----------------------------------------------------------------------------------------------


@transaction.atomic
def load(path: Path = CURATED) -> int:
    """Bring the rows of the file up to date, for the models that are in the catalog. How many aliases changed."""
    tables: dict[str, dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["models"]
    known = set(LanguageModel.objects.filter(pk__in=tables).values_list("pk", flat=True))
    for model_id in sorted(known):
        wanted = {name: tables[model_id].get(name, default) for name, default in _PROFILE.items()}
        if not Profile.objects.filter(pk=model_id, **wanted).exists():
            Profile.objects.update_or_create(pk=model_id, defaults=wanted)
    wanted_aliases = {key: row for model_id in sorted(known) for key, row in _curated(model_id, tables[model_id])}
    _make_way(wanted_aliases)
    return _reconcile(Alias.objects.filter(method=Alias.Method.CURATED), wanted_aliases)


_PROFILE: dict[str, Any] = {"open_weights": False, "hf_repo": "", "effort": ""}


def curated_ids() -> set[str]:
    """The models of the file."""
    return set(tomllib.loads(CURATED.read_text(encoding="utf-8"))["models"])


def _curated(model_id: str, table: dict[str, Any]) -> Iterator[tuple[tuple[str, str, str], Alias]]:
    named = dict(table.get("names", {}))
    if table.get("hf_repo"):
        named["HUGGINGFACE.hf_repo"] = [table["hf_repo"], *named.get("HUGGINGFACE.hf_repo", [])]
    for where, names in named.items():
        source, _, kind = where.partition(".")
        for name in names:
            yield (
                (source, kind, name),
                Alias(source=source, key_kind=kind, external_key=name, model_id=model_id, method=Alias.Method.CURATED),
            )


def _make_way(wanted: Iterable[tuple[str, str, str]]) -> None:
    """Take away what rules and links said of names that the file now speaks of."""
    for source, kind, name in wanted:
        same_name = Alias.objects.filter(source=source, key_kind=kind, external_key=name)
        same_name.exclude(method__in=_EXPLICIT).delete()


# --- Rules ---------------------------------------------------------------------------------------------------------


@transaction.atomic
def settle(snapshot: Snapshot) -> int:
    """Write down what links and rules say of the names of a snapshot that have no alias. How many aliases changed."""
    source = Source(snapshot.source)
    explicit, candidates = _explicit(source), ours()
    wanted: dict[tuple[str, str, str], Alias] = {}
    for standing in _names(snapshot):
        if _first(explicit, standing) is None and (meant := rules.meaning(theirs(standing, source), candidates)):
            key = (source.value, standing.key_kind, standing.external_key)
            wanted[key] = Alias(
                source=source,
                key_kind=standing.key_kind,
                external_key=standing.external_key,
                model_id=meant.model_id,
                method=meant.method,
                confidence=meant.confidence,
            )
    return _reconcile(Alias.objects.filter(source=source).exclude(method__in=_EXPLICIT), wanted)


def ours() -> list[Ours]:
    """Our models, as far as their identity goes."""
    repositories = dict(Profile.objects.values_list("pk", "hf_repo"))
    return [
        Ours(id=model_id, name=name, maker=maker, hf_repo=repositories.get(model_id, ""))
        for model_id, name, maker in LanguageModel.objects.values_list("pk", "name", "maker")
    ]


def _reconcile(existing: Any, wanted: dict[tuple[str, str, str], Alias]) -> int:
    """Make the rows of ``existing`` those that are wanted. A name that has another row already keeps that."""
    changed = 0
    for row in existing:
        new = wanted.pop((row.source, row.key_kind, row.external_key), None)
        if new is None:
            row.delete()
        elif (row.model_id, row.method, row.confidence) != (new.model_id, new.method, new.confidence):
            row.model_id, row.method, row.confidence = new.model_id, new.method, new.confidence
            row.save(update_fields=["model", "method", "confidence"])
        else:
            continue
        changed += 1
    before = Alias.objects.count()
    Alias.objects.bulk_create(wanted.values(), ignore_conflicts=True)
    return changed + Alias.objects.count() - before


# --- What the rest asks --------------------------------------------------------------------------------------------


def chosen(snapshot: Snapshot) -> dict[Category, dict[str, Chosen]]:
    """By board and id: the standing of each of our models.

    Where several are one model's, the one that an alias was written for; else the worst one, and never silently the best.
    """
    known = _aliases(Source(snapshot.source))
    found: dict[tuple[Category, str], list[tuple[Standing, Alias]]] = defaultdict(list)
    for standing in snapshot.standings.all():
        alias = _first(known, standing)
        if alias is not None and alias.model_id is not None:
            found[Category(standing.board), alias.model_id].append((standing, alias))
    boards: dict[Category, dict[str, Chosen]] = defaultdict(dict)
    for (board, model_id), candidates in found.items():
        boards[board][model_id] = _choose(candidates)
    return dict(boards)


def _choose(candidates: list[tuple[Standing, Alias]]) -> Chosen:
    written = [pair for pair in candidates if pair[1].method in _EXPLICIT] or candidates
    standing, alias = min(written, key=lambda pair: (pair[0].value, -pair[0].rank))
    confidence = alias.confidence if len(written) == 1 else min(alias.confidence, SEVERAL_CONFIDENCE)
    return Chosen(standing, confidence, Alias.Method(alias.method))


def unmatched(snapshot: Snapshot) -> list[Standing]:
    """The names of a snapshot that mean none of our models, and of which nobody said so; as they rank."""
    known = _aliases(Source(snapshot.source))
    return [standing for standing in _names(snapshot) if _first(known, standing) is None]


def latest(source: Source | str) -> Snapshot | None:
    """The snapshot that is published, if any may be."""
    if not registry.spec(source).may_be_shown():
        return None
    return Snapshot.objects.filter(source=source).order_by("-id").first()


def _names(snapshot: Snapshot) -> list[Standing]:
    """One standing for each name of a snapshot: its first board's, as ranked."""
    first: dict[str, Standing] = {}
    order = {category: number for number, category in enumerate(Category)}
    for standing in sorted(snapshot.standings.all(), key=lambda row: (order[Category(row.board)], row.rank, row.external_key)):
        first.setdefault(standing.external_key, standing)
    return list(first.values())


def _aliases(source: Source) -> dict[_Key, Alias]:
    return _by_key(Alias.objects.filter(source=source))


def _explicit(source: Source) -> dict[_Key, Alias]:
    return _by_key(Alias.objects.filter(source=source, method__in=_EXPLICIT))


def _by_key(aliases: Iterable[Alias]) -> dict[_Key, Alias]:
    # Two spellings of one name of the Hub: what staff wrote comes last, and stays.
    in_order = sorted(aliases, key=lambda alias: alias.method == Alias.Method.STAFF)
    return {_folded(alias.key_kind, alias.external_key): alias for alias in in_order}


def _first(known: dict[_Key, Alias], standing: Standing) -> Alias | None:
    return next((known[key] for key in keys(standing) if key in known), None)
