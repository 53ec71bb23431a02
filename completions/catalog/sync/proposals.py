"""What providers' lists propose: found once a day, approved or dismissed by staff, or applied by the rule.

``sync`` asks, compares and writes down. A difference that waits already is not proposed again, one that was dismissed stays
dismissed as long as it is the same, and one that is no more is outdated. Everything is written one at a time, with the
catalog files: see ``catalog_rows``. What runs is not touched: a completion keeps the price of its admission.
"""

import json
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from billing.models import User
from completions.catalog import lookup, writes
from completions.catalog.sync import diff, fetch, parse
from completions.catalog.sync.diff import Comparison, Difference
from completions.catalog.sync.parse import ListedModel
from completions.models import CatalogProposal, LanguageModel, Provider, Route, UpstreamList
from gateway_project import secretbox
from gateway_project.db import pool

logger = logging.getLogger("gateway.catalog")

Kind, State = CatalogProposal.Kind, CatalogProposal.State


class SyncFailed(Exception):
    """The provider gave no list, or one that is not believed; the words say why, as one says it of the provider."""


class DecisionRefused(Exception):
    """The proposal cannot be decided so; the words say why. Nothing was written."""


@dataclass
class Report:
    """What a sync found. ``waiting`` counts all that waits for somebody, ``notes`` name what cannot be proposed."""

    provider: str
    listed: int
    is_unchanged: bool
    proposed: list[CatalogProposal] = field(default_factory=list)
    applied: list[CatalogProposal] = field(default_factory=list)
    outdated: int = 0
    waiting: int = 0
    notes: list[str] = field(default_factory=list)


def synced_providers() -> Iterable[Provider]:
    """The providers whose lists are read every day."""
    readable = Provider.objects.filter(kind=Provider.Kind.OPENAI, is_enabled=True)
    return readable.exclude(sync=Provider.Sync.OFF).order_by("pk")


def stored_list(provider: Provider) -> UpstreamList | None:
    """The last list that was believed, and how asking went since."""
    return UpstreamList.objects.filter(pk=provider.pk).first()


def sync(provider: Provider, *, applies: bool, believes: bool = False) -> Report:
    """Ask the provider for its list, and write down what it says otherwise. Raises SyncFailed.

    ``applies``: what is small is applied at once. ``believes``: a list is, even if it has lost most of its models.
    """
    kept = stored_list(provider) or UpstreamList(provider=provider)
    url = f"{provider.base_url.rstrip('/')}/models"
    if kept.url != url:
        kept = UpstreamList(provider=provider, url=url)
    try:
        listed, is_unchanged = _ask(provider, kept, believes)
    except SyncFailed as failure:
        kept.failure = str(failure)[:200]
        _keep(kept)
        logger.warning("the list of %s was not taken: it %s", provider.pk, failure)
        raise
    with transaction.atomic():
        writes.lock_catalog()
        kept.failure, kept.retry_at, kept.confirmed_at = "", None, pool.database_time()
        _keep(kept)
        report = Report(provider.pk, listed=len(listed), is_unchanged=is_unchanged)
        _reconcile(provider, _compare(provider, listed), report)
        if applies:
            _apply_small(provider, report)
        report.waiting = CatalogProposal.objects.filter(provider=provider, state=State.PENDING).count()
    return report


def _keep(kept: UpstreamList) -> None:
    fields = ("url", "etag", "body", "confirmed_at", "failure", "retry_at")
    defaults = {name: getattr(kept, name) for name in fields}
    UpstreamList.objects.update_or_create(provider_id=kept.provider_id, defaults=defaults)


# --- Asking -----------------------------------------------------------------------------------------------------------


def _ask(provider: Provider, kept: UpstreamList, believes: bool) -> tuple[dict[str, ListedModel], bool]:
    """The listed, and whether they are those of the last time. Changes ``kept``, and does not save it."""
    now = pool.database_time()
    if kept.retry_at and now < kept.retry_at:
        raise SyncFailed(f"wants to be left alone until {kept.retry_at:%Y-%m-%d %H:%M:%S} UTC")
    before = _entries_before(kept)
    try:
        key = lookup.read_api_key(provider)
        pool.release_connection()  # nothing is held while they take their time
        answer = fetch.fetch(kept.url, api_key=key, etag=kept.etag)
        if answer is None:
            return before, True
        listed = parse.parse_list(answer.body)
    except secretbox.Unreadable:
        raise SyncFailed("has a key that cannot be read") from None
    except fetch.Unavailable as failure:
        kept.retry_at = now + timedelta(seconds=failure.retry_seconds) if failure.retry_seconds else None
        raise SyncFailed(str(failure)) from None
    except parse.InvalidList as problem:
        raise SyncFailed(f"sent a list that {problem}") from None
    _require_plausible(provider, before, listed, believes)
    kept.body, kept.etag = answer.body.decode(), answer.etag
    return listed, False


def _entries_before(kept: UpstreamList) -> dict[str, ListedModel]:
    try:
        return parse.parse_list(kept.body.encode())
    except parse.InvalidList:  # there was none, or an older reader took it: then it is asked for anew
        kept.etag = ""
        return {}


def _require_plausible(
    provider: Provider, before: dict[str, ListedModel], listed: dict[str, ListedModel], believes: bool
) -> None:
    """Whoever forgets more than half of what he knew has had an accident. The first list is held against our routes."""
    if not listed:
        raise SyncFailed("sent a list without a model")
    known = set(before) or set(_routes(provider).filter(is_enabled=True).values_list("upstream_model", flat=True))
    lost = [name for name in known if not parse.is_listed(listed, name)]
    if len(lost) * 2 > len(known) and not believes:
        raise SyncFailed(f"sent a list without {len(lost)} of {len(known)} models, which is not believed")


def _routes(provider: Provider) -> Any:
    return Route.objects.filter(provider=provider)


# --- What differs, and what is written down of it ----------------------------------------------------------------------


def _compare(provider: Provider, listed: dict[str, ListedModel]) -> Comparison:
    routed = set(_routes(provider).values_list("upstream_model", flat=True))
    return diff.compare(provider.pk, listed, LanguageModel.objects.with_price_and_routes(), routed)


def _reconcile(provider: Provider, comparison: Comparison, report: Report) -> None:
    report.notes = comparison.notes
    of_provider = CatalogProposal.objects.filter(provider=provider)
    waiting = {_subject(proposal): proposal for proposal in of_provider.filter(state=State.PENDING)}
    dismissed = {_content(proposal) for proposal in of_provider.filter(state=State.DISMISSED)}
    still, new = set(), []
    for difference in comparison.differences:
        known = waiting.get(_subject(difference))
        if known and _content(known) == _content(difference):
            still.add(known.pk)
        elif _content(difference) not in dismissed:
            new.append(_proposal(provider, difference))
    outdated = of_provider.filter(state=State.PENDING).exclude(pk__in=still)
    report.outdated = outdated.update(state=State.SUPERSEDED, decided_at=Now())
    report.proposed = CatalogProposal.objects.bulk_create(new)


def _subject(found: CatalogProposal | Difference) -> tuple[str, str, str]:
    return found.kind, found.upstream_model, found.model_id or ""


def _content(found: CatalogProposal | Difference) -> tuple[str, ...]:
    """What somebody who dismissed it has dismissed: of a new model the model, not what it cost on that day."""
    values = () if found.kind == Kind.NEW_MODEL else (found.old, found.new)
    return (*_subject(found), *(json.dumps(each, sort_keys=True) for each in values))


def _proposal(provider: Provider, difference: Difference) -> CatalogProposal:
    return CatalogProposal(
        provider=provider,
        upstream_model=difference.upstream_model,
        model_id=difference.model_id or None,
        kind=difference.kind,
        old=difference.old,
        new=difference.new,
    )


def _apply_small(provider: Provider, report: Report) -> None:
    """By the rule, and whatever has waited for longer than since now."""
    for proposal in CatalogProposal.objects.filter(provider=provider, state=State.PENDING).order_by("pk"):
        if diff.can_apply_automatically(proposal.kind, proposal.old, proposal.new, percent=settings.CATALOG_SYNC_PRICE_PERCENT):
            with suppress(DecisionRefused):  # staff were editing the model
                _apply(proposal)
                report.applied.append(_decide(proposal, State.APPLIED, None))
    applied = {proposal.pk for proposal in report.applied}
    report.proposed = [proposal for proposal in report.proposed if proposal.pk not in applied]


# --- Deciding ---------------------------------------------------------------------------------------------------------


def approve(proposal_id: int, *, by: User) -> CatalogProposal:
    """Make the catalog as proposed. A new model is made switched off. Raises DecisionRefused."""
    with transaction.atomic():
        proposal = _pending(proposal_id)
        _apply(proposal)
        return _decide(proposal, State.APPLIED, by)


def dismiss(proposal_id: int, *, by: User) -> CatalogProposal:
    """Leave the catalog as it is, and do not propose the same again. Raises DecisionRefused."""
    with transaction.atomic():
        return _decide(_pending(proposal_id), State.DISMISSED, by)


def _pending(proposal_id: int) -> CatalogProposal:
    writes.lock_catalog()  # of two clicks the second finds what the first has done
    proposal = CatalogProposal.objects.get(pk=proposal_id)
    if proposal.state != State.PENDING:
        raise DecisionRefused(f"is {proposal.get_state_display()} already")
    return proposal


def _decide(proposal: CatalogProposal, state: CatalogProposal.State, by: User | None) -> CatalogProposal:
    proposal.state, proposal.decided_by, proposal.decided_at = state, by, pool.database_time()
    proposal.save(update_fields=["state", "decided_by", "decided_at", "model"])
    who = f"user {by.pk}" if by else "the rule"
    change = diff.describe_change(proposal.kind, proposal.old, proposal.new)
    logger.info("%s by %s, as %s lists it: %s, %s", state, who, proposal.provider_id, proposal.subject, change)
    return proposal


def _apply(proposal: CatalogProposal) -> None:
    """Raises DecisionRefused when the catalog is no longer what the proposal was held against: nobody has seen that change."""
    _WRITERS[Kind(proposal.kind)](proposal)


def _write_price(proposal: CatalogProposal) -> None:
    model = LanguageModel.objects.with_price_and_routes().get(pk=proposal.model_id)
    current = model.prices_in_force[0] if model.prices_in_force else None
    _require_unchanged(proposal, diff.price_values(current) if current else {})
    writes.set_price(model.pk, current, diff.price_columns(proposal.new))


def _write_model(proposal: CatalogProposal) -> None:
    model = LanguageModel.objects.select_for_update().get(pk=proposal.model_id)  # staff may be editing it
    _require_unchanged(proposal, {name: getattr(model, name) for name in proposal.old})
    for name in proposal.old:
        setattr(model, name, proposal.new[name])
    model.save(update_fields=list(proposal.old))


def _require_unchanged(proposal: CatalogProposal, current: dict[str, Any]) -> None:
    if current != proposal.old:
        raise DecisionRefused("is outdated: the catalog was changed meanwhile, and the next sync looks again")


def _write_gone(proposal: CatalogProposal) -> None:
    routes = _routes(proposal.provider).filter(model=proposal.model_id, upstream_model=proposal.upstream_model)
    if not routes.filter(is_enabled=True).update(is_enabled=False):
        raise DecisionRefused("is outdated: the route is switched off, or not there")


def _write_new(proposal: CatalogProposal) -> None:
    said = {**proposal.new}
    price, model_id = said.pop("price"), said.pop("id")
    if not said["context_window"]:
        raise DecisionRefused("cannot be approved: the list does not say its context window. Add the model by hand")
    if LanguageModel.objects.filter(pk=model_id).exists():
        raise DecisionRefused(f"is outdated: there is a model {model_id}")
    proposal.model = LanguageModel.objects.create(pk=model_id, is_enabled=False, **said)
    Route.objects.create(model=proposal.model, provider=proposal.provider, upstream_model=proposal.upstream_model)
    if price:
        writes.set_price(model_id, None, diff.price_columns(price))


_WRITERS: dict[CatalogProposal.Kind, Callable[[CatalogProposal], None]] = {
    Kind.PRICE: _write_price,
    Kind.LIMITS: _write_model,
    Kind.CAPABILITIES: _write_model,
    Kind.GONE: _write_gone,
    Kind.NEW_MODEL: _write_new,
}
