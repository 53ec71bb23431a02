"""Checks a provider for an operator: asks it for its models and for a few words, and says what is wrong, and what to do."""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from completions import providers
from completions.catalog import access_words, provider_faults, route_calls, rules
from completions.catalog.sync import parse, proposals
from completions.models import Provider, Route
from completions.providers.access import platforms
from completions.providers.access.endpoints import LISTS
from gateway_project import installation
from gateway_project.text import web_addresses

OK, NOTE, WRONG = "ok", "note", "wrong"
_Listed = Mapping[str, parse.ListedModel]  # by the names of models
_NEAR_MAX, _NEAR_RATIO = 3, 0.4
_STATUS = re.compile(r"answered (\d{3})")  # of a list
_REFUSED = "The model's provider refused the request: "
_DOUBLED = re.compile(r"((?:/[\w.-]+)+)\1(?![\w.-])")


class Finding(NamedTuple):
    """A fact about a provider, in a sentence: right, wrong or worth a note; and the advice for it."""

    state: str
    what: str
    advice: str = ""


def check(provider: Provider, model_id: str = "") -> list[Finding]:
    """Return the findings, with a request to the route of this model if one is named. Holds no connection while it asks."""
    found = list(_of_row(provider))
    if any(each.state == WRONG for each in found):  # a request would only fail
        return found
    route = _route(provider, model_id)
    outcome = route_calls.call(route) if route else None
    is_reached = outcome is None or not outcome.failure or bool(outcome.status)
    listed, failure = _list(provider) if is_reached else ({}, "")
    if listed:
        found.append(Finding(OK, f"It lists {len(listed):,} models."))
    if route is None or outcome is None:
        found.append(Finding(NOTE, "It has no enabled route, so it was not asked for words."))
        status = _STATUS.search(failure)
        found += [_of_failure(provider, None, listed, failure, int(status[1]) if status else None)] if failure else []
    elif outcome.failure:
        found.append(_of_failure(provider, route, listed, outcome.failure.removeprefix(_REFUSED), outcome.status))
    else:
        found.append(Finding(OK, f"Asked for {route.model_id}, it answered after {outcome.seconds}."))
        found += [Finding(NOTE, f"Its list was not read: it {failure}.")] if failure else []
    return [*found, *_unlisted(provider, route, listed)]


def _of_row(provider: Provider) -> Iterator[Finding]:
    """Yield what is known without a request."""
    if not provider.is_enabled:
        yield Finding(NOTE, "It is disabled, so requests of callers do not reach it.", "Enable it in the admin.")
    if provider.kind == Provider.Kind.ECHO:
        return
    yield _of_key(provider)
    if provider.is_key_refused:
        yield Finding(NOTE, f"It refused this key: {provider.key_refusal}.", "Once it accepts the key, its models return.")
    if lacking := rules.lacking_extra(provider):
        needs, _, how = lacking.partition(": ")
        yield Finding(WRONG, f"A library is missing: {needs}.", f"On each host: {how}")
    try:
        rules.clean_base_url(provider.base_url)
    except ValueError as error:
        yield Finding(WRONG, f"base_url {error}.", provider_faults.find(None, str(error)).advice)
    auth, known = provider.access.get("auth", {}), platforms.signing(provider.base_url)
    if known and auth.get("type") == "aws" and auth.get("region", known["region"]) != known["region"]:
        what = f"Signatures are for the region {auth['region']}, but base_url is of {known['region']}."
        yield Finding(WRONG, what, "Leave region out of auth in the catalog file, and load it.")


def _of_key(provider: Provider) -> Finding:
    what = f"Its key: {access_words.describe_key(provider)}."
    if provider.has_key:
        return Finding(OK, what)
    return Finding(WRONG, what, f"Store it: {installation.COMMAND} set_provider_key {provider.pk}.")


def _route(provider: Provider, model_id: str) -> Route | None:
    """Return the route to ask: rather of an enabled model than of another, and rather of one that writes."""
    routes = provider.routes.filter(is_enabled=True, **({"model": model_id} if model_id else {}))
    found = routes.select_related("model", "provider").order_by("-model__is_enabled", "model__kind", "priority", "pk")
    return found.first()  # "chat" comes before "embedding"


def _list(provider: Provider) -> tuple[_Listed, str]:
    """Return the names that it lists, and why that was not read, as a predicate."""
    if provider.kind not in LISTS:
        return {}, ""
    try:
        return proposals.read_list(provider), ""
    except proposals.SyncFailed as failure:
        return {}, str(failure) if str(failure) != proposals.NO_LIST else ""


def _of_failure(provider: Provider, route: Route | None, listed: _Listed, words: str, status: int | None) -> Finding:
    fault, url = provider_faults.find(status, words), _url(provider, route)
    facts = {
        "provider": provider.pk,
        "host": web_addresses.host(provider.base_url),
        "url": url,
        "path": _path_words(provider, url),
        "model": route.upstream_model if route else "",
        "near": _near(route.upstream_model, listed) if route else "",
        "command": installation.COMMAND,
    }
    asked = f"Asked for {route.model_id}, it" if route else "It"
    said = f"{status}: {words}" if status else words
    return Finding(WRONG, f"{asked} {fault.is_about.format(**facts)} ({said}).", fault.advice.format(**facts))


def _url(provider: Provider, route: Route | None) -> str:
    access = {name: value for name, value in provider.access.items() if name != "auth"}
    where = provider.pk, provider.base_url.rstrip("/"), "", access
    if route is None:
        return LISTS[provider.kind].target(*where).url.partition("?")[0]
    return providers.ADAPTERS[route.adapter].target(*where, route.upstream_model).url.partition("?")[0]


def _path_words(provider: Provider, url: str) -> str:
    """Say what is probably wrong with a path that is not found."""
    if doubled := _DOUBLED.search(web_addresses.parse(url).path):
        return f"The path has {doubled[1]} twice. "
    is_bare = not web_addresses.parse(provider.base_url).path.strip("/")
    return "Mostly base_url of this kind ends with /v1. " if is_bare and provider.kind == Provider.Kind.OPENAI else ""


def _near(name: str, listed: _Listed) -> str:
    near = difflib.get_close_matches(name, listed, _NEAR_MAX, _NEAR_RATIO)
    return f"Its list has {', '.join(near)}. " if near else "Its list has no name like it. " if listed else ""


def _unlisted(provider: Provider, asked: Route | None, listed: _Listed) -> Iterator[Finding]:
    """Yield the other routes to models that it does not list. Azure lists what can be deployed, and not what is."""
    if not listed or platforms.find(provider.base_url, provider.access.get("platform", "")) is platforms.PLATFORMS["azure"]:
        return
    for route in provider.routes.filter(is_enabled=True).order_by("model_id"):
        if route != asked and not parse.is_listed(listed, route.upstream_model):
            what = f"It does not list {route.upstream_model}, to which {route.model_id} leads."
            yield Finding(NOTE, what, _near(route.upstream_model, listed).strip())
