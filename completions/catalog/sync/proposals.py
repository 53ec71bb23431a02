"""Proposes catalog changes from providers' own lists. Staff approve or dismiss them, or the rule in ``diff`` applies them.

``sync`` fetches a list, compares it and stores what differs. A difference that is already pending is not proposed again. A
dismissed one stays dismissed as long as it is the same. A pending one that no longer exists becomes outdated. All writes
hold the catalog's lock, as catalog files do (``catalog.writes``). Running completions are not affected: each is charged at
the price of its admission.
"""

import json
import logging
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from billing.models import User
from completions.catalog import markup, writes
from completions.catalog.sync import diff, parse
from completions.catalog.sync.parse import ListedModel
from completions.chat import Target
from completions.models import CatalogProposal, LanguageModel, Provider, Route, UpstreamList
from completions.pricing.rates import RateSheet
from completions.providers.access import platforms
from completions.providers.access.endpoints import LISTS
from completions.providers.access.keeper import CredentialUnavailable
from gateway_project.db import pool
from gateway_project.net import background_http
from gateway_project.net.background_http import Document

logger = logging.getLogger("gateway.catalog")

Kind, State = CatalogProposal.Kind, CatalogProposal.State
_ETAG_CHARACTERS_MAX = 200
NO_LIST = "has no list of its models"


class SyncFailed(Exception):
    """The provider gave no list, or one that was not accepted. The message is a predicate: "<provider> answered 500"."""


class DecisionRefused(Exception):
    """The proposal cannot be approved or dismissed. The message is a predicate about it. Nothing was written."""


@dataclass
class Report:
    """The result of a sync. ``waiting`` counts all pending proposals; ``notes`` name findings that cannot be proposed."""

    provider: str
    listed: int
    is_unchanged: bool
    proposed: list[CatalogProposal] = field(default_factory=list)
    applied: list[CatalogProposal] = field(default_factory=list)
    outdated: int = 0
    waiting: int = 0
    notes: list[str] = field(default_factory=list)


def synced_providers() -> Iterable[Provider]:
    """Return the providers whose lists are fetched every day."""
    readable = Provider.objects.filter(kind__in=LISTS, is_enabled=True)
    return readable.exclude(sync=Provider.Sync.OFF).order_by("pk")


def stored_list(provider: Provider) -> UpstreamList | None:
    """Return the last accepted list, and the outcome of the last request for it."""
    return UpstreamList.objects.filter(pk=provider.pk).first()


def sync(provider: Provider, *, can_apply: bool, accepts_losses: bool = False) -> Report:
    """Store how the provider's list differs from the catalog. Raises SyncFailed.

    ``can_apply``: apply at once what the rule allows. ``accepts_losses``: a list that lost much does not fail.
    """
    stored = stored_list(provider) or UpstreamList(provider=provider)
    target = _target(provider)
    if stored.url != target.url:
        stored = UpstreamList(provider=provider, url=target.url)
    try:
        listed, is_unchanged = _fetch(provider, target, stored, accepts_losses)
    except SyncFailed as failure:
        stored.failure = str(failure)[:200]
        _save(stored)
        logger.warning("the list of %s was not taken: it %s", provider.pk, failure, extra={"provider": provider.pk})
        raise
    with transaction.atomic():
        writes.lock_catalog()
        stored.failure, stored.retry_at, stored.confirmed_at = "", None, pool.database_time()
        _save(stored)
        report = Report(provider.pk, listed=len(listed), is_unchanged=is_unchanged)
        routed = set(provider.routes.values_list("upstream_model", flat=True))
        priced = {name: _with_markup(each) for name, each in listed.items()}
        models = LanguageModel.objects.with_price_and_routes()
        found, report.notes = diff.compare(provider.pk, priced, models, routed)
        _reconcile(provider, found, report)
        if can_apply:
            _apply_allowed(provider, report)
        report.waiting = CatalogProposal.objects.filter(provider=provider, state=State.PENDING).count()
    return report


def read_list(provider: Provider) -> dict[str, ListedModel]:
    """Return what the provider lists now, and store nothing. Raises SyncFailed."""
    return _fetch(provider, _target(provider), UpstreamList(provider=provider), accepts_losses=True)[0]


def _save(stored: UpstreamList) -> None:
    fields = ("url", "etag", "body", "confirmed_at", "failure", "retry_at")
    defaults = {name: getattr(stored, name) for name in fields}
    UpstreamList.objects.update_or_create(provider_id=stored.provider_id, defaults=defaults)


def _target(provider: Provider) -> Target:
    """Return where the list is, and what is shown there; nothing if the key cannot be read."""
    key = provider.read_api_key() if provider.is_key_readable else ""
    return LISTS[provider.kind].target(provider.pk, provider.base_url.rstrip("/"), key, provider.access)


def _fetch(
    provider: Provider, target: Target, stored: UpstreamList, accepts_losses: bool
) -> tuple[dict[str, ListedModel], bool]:
    """Return the listed models, and whether the list is unchanged. Updates ``stored``, but does not save it."""
    now = pool.database_time()
    if stored.retry_at and now < stored.retry_at:
        raise SyncFailed(f"asked to wait until {stored.retry_at:%Y-%m-%d %H:%M:%S} UTC")
    before = _listed_before(stored)
    if "{model}" in provider.base_url or platforms.MODEL_LIST in target.lacks:
        raise SyncFailed(NO_LIST)
    if not provider.is_key_readable:
        raise SyncFailed("has a key that cannot be read")
    if target.credential and not provider.has_key:  # never that of this host instead
        raise SyncFailed(f"has no key: {provider.api_key_env} is not set")
    try:
        pool.release_connection()  # the provider may take minutes
        proof = target.credential.proof().headers("GET", target.url, b"") if target.credential else {}
        headers = {**target.headers, **proof}
        with closing(background_http.Client(headers)) as client:
            document = client.get(target.url, {"If-None-Match": stored.etag} if stored.etag else {})
        if document is None:
            return before, True
        listed = parse.parse_list(document.body)
    except CredentialUnavailable as reason:
        raise SyncFailed(f"has no credential: {reason}") from None
    except background_http.FetchFailed as failure:
        stored.retry_at = now + timedelta(seconds=failure.retry_seconds) if failure.retry_seconds else None
        raise SyncFailed(failure.reason) from None
    except parse.InvalidList as problem:
        raise SyncFailed(f"sent a list that {problem}") from None
    _require_plausible(provider, before, listed, accepts_losses)
    stored.body, stored.etag = document.body.decode(), _etag(document)
    return listed, False


def _etag(document: Document) -> str:
    """Return the list's ETag; empty if there is none, or one that does not fit into a header or into its column."""
    etag = document.headers.get("ETag", "")
    return etag if etag.isascii() and etag.isprintable() and len(etag) <= _ETAG_CHARACTERS_MAX else ""


def _listed_before(stored: UpstreamList) -> dict[str, ListedModel]:
    try:
        return parse.parse_list(stored.body.encode())
    except parse.InvalidList:  # no list yet, or one that an older version accepted: then fetch it unconditionally
        stored.etag = ""
        return {}


def _require_plausible(
    provider: Provider, before: dict[str, ListedModel], listed: dict[str, ListedModel], accepts_losses: bool
) -> None:
    """Raises SyncFailed for a list that lacks more than half of the last one, or at first of our routes: perhaps a fault."""
    if not listed:
        raise SyncFailed("sent a list without a model")
    previous = set(before) or set(provider.routes.filter(is_enabled=True).values_list("upstream_model", flat=True))
    lost = [name for name in previous if not parse.is_listed(listed, name)]
    if len(lost) * 2 > len(previous) and not accepts_losses:
        raise SyncFailed(f"sent a list without {len(lost)} of {len(previous)} models, which is not accepted")


def _with_markup(listed: ListedModel) -> ListedModel:
    if listed.price is None:
        return listed
    try:
        return replace(listed, price=markup.add_to_list(listed.price))
    except ValueError as error:
        return replace(listed, price=None, notes=(*listed.notes, f"has an implausible price: {error}"))


def _reconcile(provider: Provider, found: list[CatalogProposal], report: Report) -> None:
    of_provider = CatalogProposal.objects.filter(provider=provider)
    pending = {_subject(proposal): proposal for proposal in of_provider.filter(state=State.PENDING)}
    dismissed = {_content(proposal) for proposal in of_provider.filter(state=State.DISMISSED)}
    still_pending, new = set(), []
    for proposal in found:
        known = pending.get(_subject(proposal))
        if known and _content(known) == _content(proposal):
            still_pending.add(known.pk)
        elif _content(proposal) not in dismissed:
            new.append(proposal)
    outdated = of_provider.filter(state=State.PENDING).exclude(pk__in=still_pending)
    report.outdated = outdated.update(state=State.SUPERSEDED, decided_at=Now())
    report.proposed = CatalogProposal.objects.bulk_create(new)


def _subject(proposal: CatalogProposal) -> tuple[str, str, str]:
    return proposal.kind, proposal.upstream_model, proposal.model_id or ""


def _content(proposal: CatalogProposal) -> tuple[str, ...]:
    """Return what a dismissal covers: for a new model the model itself, at any price."""
    values = () if proposal.kind == Kind.NEW_MODEL else (proposal.old, proposal.new)
    return (*_subject(proposal), *(json.dumps(each, sort_keys=True) for each in values))


def _apply_allowed(provider: Provider, report: Report) -> None:
    """Apply what the rule allows without approval, proposals of earlier syncs included."""
    for proposal in CatalogProposal.objects.filter(provider=provider, state=State.PENDING).order_by("pk"):
        percent = settings.CATALOG_SYNC_PRICE_PERCENT
        if diff.can_apply_automatically(proposal.kind, proposal.old, proposal.new, percent=percent):
            with suppress(DecisionRefused):  # staff have changed the model since
                _WRITERS[Kind(proposal.kind)](proposal)
                report.applied.append(_decide(proposal, State.APPLIED, None))
    applied = {proposal.pk for proposal in report.applied}
    report.proposed = [proposal for proposal in report.proposed if proposal.pk not in applied]


def approve(proposal_id: int, *, by: User) -> CatalogProposal:
    """Change the catalog as proposed; a new model is created disabled. Raises DecisionRefused."""
    with transaction.atomic():
        proposal = _lock_pending(proposal_id)
        _WRITERS[Kind(proposal.kind)](proposal)
        return _decide(proposal, State.APPLIED, by)


def dismiss(proposal_id: int, *, by: User) -> CatalogProposal:
    """Leave the catalog as it is, and do not propose the same again. Raises DecisionRefused."""
    with transaction.atomic():
        return _decide(_lock_pending(proposal_id), State.DISMISSED, by)


def _lock_pending(proposal_id: int) -> CatalogProposal:
    writes.lock_catalog()  # the second of two clicks sees what the first one did
    proposal = CatalogProposal.objects.get(pk=proposal_id)
    if proposal.state != State.PENDING:
        raise DecisionRefused(f"is {proposal.get_state_display()} already")
    return proposal


def _decide(proposal: CatalogProposal, state: CatalogProposal.State, by: User | None) -> CatalogProposal:
    proposal.state, proposal.decided_by, proposal.decided_at = state, by, pool.database_time()
    proposal.save(update_fields=["state", "decided_by", "decided_at", "model"])
    actor = f"user {by.pk}" if by else "the rule"
    change = diff.describe_change(proposal.kind, proposal.old, proposal.new)
    logger.info("%s by %s, as %s lists it: %s, %s", state, actor, proposal.provider_id, proposal.subject, change)
    return proposal


def _write_price(proposal: CatalogProposal) -> None:
    model = LanguageModel.objects.with_price_and_routes().get(pk=proposal.model_id)
    current = model.prices_in_force[0] if model.prices_in_force else None
    _require_unchanged(proposal, current.sheet.values if current else {})
    sheet = RateSheet.of_values(proposal.new)
    if current is None or current.sheet != sheet:
        writes.set_price(model.pk, sheet)


def _write_model(proposal: CatalogProposal) -> None:
    model = LanguageModel.objects.select_for_update().get(pk=proposal.model_id)  # staff may be editing it
    _require_unchanged(proposal, {name: getattr(model, name) for name in proposal.old})
    for name in proposal.old:
        setattr(model, name, proposal.new[name])
    model.save(update_fields=list(proposal.old))


def _require_unchanged(proposal: CatalogProposal, current: dict[str, Any]) -> None:
    if current != {name: value for name, value in proposal.old.items() if value is not None}:  # as the last release wrote
        raise DecisionRefused("is outdated: the catalog has changed since, and the next sync compares again")


def _write_gone(proposal: CatalogProposal) -> None:
    routes = proposal.provider.routes.filter(model=proposal.model_id, upstream_model=proposal.upstream_model)
    if not routes.filter(is_enabled=True).update(is_enabled=False):
        raise DecisionRefused("is outdated: the route is disabled, or does not exist")


def _write_new(proposal: CatalogProposal) -> None:
    columns = {**proposal.new}
    price, model_id = columns.pop("price"), columns.pop("id")
    if not columns["context_window"]:
        raise DecisionRefused("cannot be approved: the list does not say its context window. Add the model by hand")
    if LanguageModel.objects.filter(pk=model_id).exists():
        raise DecisionRefused(f"is outdated: there is a model {model_id}")
    proposal.model = LanguageModel.objects.create(pk=model_id, is_enabled=False, **columns)
    Route.objects.create(model=proposal.model, provider=proposal.provider, upstream_model=proposal.upstream_model)
    if price:
        writes.set_price(model_id, RateSheet.of_values(price))


# Each writes the change. It raises DecisionRefused if the catalog has changed since the comparison.
_WRITERS: dict[CatalogProposal.Kind, Callable[[CatalogProposal], None]] = {
    Kind.PRICE: _write_price,
    Kind.LIMITS: _write_model,
    Kind.CAPABILITIES: _write_model,
    Kind.GONE: _write_gone,
    Kind.NEW_MODEL: _write_new,
}
