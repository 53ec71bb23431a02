"""Finds completions by their id, their request's id and their provider's id of the request, and statements by their number."""

import re
from datetime import date
from typing import Any

from django.db.models import DateField, F, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Right
from django.urls import reverse

from billing.models import Account
from completions.history import monthly_statement
from completions.models import Completion, LanguageModel, Provider, Route
from gateway_project.desk import short_ids
from gateway_project.desk.search import Finder
from gateway_project.text import dollars, timestamps

_PREFIX = "chatcmpl-"
_TERM_CHARACTERS_MIN = 3  # fewer are in the names of too many
_ID = re.compile(rf"(?:{_PREFIX})?([0-9a-f]{{8,32}})", re.ASCII)

_COMPLETIONS = Completion.objects.select_related("account", "model")


def _by_id(term: str) -> QuerySet[Completion]:
    """An id is tried as it is, too: not all begin as ours do now."""
    part = short_ids.parse(term)
    match = _ID.fullmatch(part.beginning)
    if match is None:
        return _COMPLETIONS.filter(pk=term)
    return _COMPLETIONS.filter(pk__startswith=f"{_PREFIX}{match[1]}", pk__endswith=part.end)


def _models(term: str) -> QuerySet[LanguageModel]:
    if len(term) < _TERM_CHARACTERS_MIN:
        return LanguageModel.objects.none()
    return LanguageModel.objects.filter(Q(pk__icontains=term) | Q(name__icontains=term)).order_by("pk")


def _routes(term: str) -> QuerySet[Route]:
    """Find the routes that ask a provider for a model by this name, and one as it is written: "acme/large at openai"."""
    model, at, provider = term.partition(" at ")
    by_words = Q(model=model, provider=provider) if at else Q()
    asked = Q(upstream_model__iexact=term) & ~Q(upstream_model=F("model_id"))
    return Route.objects.filter(by_words if at else asked).select_related("model", "provider").order_by("pk")


def _off(row: Any) -> str:
    return "" if row.is_enabled else ", switched off"


def _describe(completion: Completion) -> str:
    cost = "runs" if completion.cost_nanos is None else dollars.format_usd(completion.cost_nanos)
    return f"{completion.model_id}, {cost}, {completion.account}, {timestamps.in_words(completion.created_at)}"


def _statements(term: str) -> QuerySet[Account]:
    """Find the account of a statement, with the statement's ``month``."""
    parsed = monthly_statement.parse_number(term)
    end_of_id, month = parsed or ("", date.min)
    accounts = Account.objects.annotate(end_of_id=Right(Cast("pk", TextField()), 8), month=Value(month, DateField()))
    return accounts.filter(end_of_id=end_of_id) if parsed else accounts.none()


FINDERS = [
    Finder(Completion, _by_id, _describe, "a completion's ID, or its beginning"),
    Finder(Completion, lambda term: _COMPLETIONS.filter(request_id=term), _describe, "a request ID (x-request-id)"),
    Finder(
        Completion, lambda term: _COMPLETIONS.filter(provider_request_id=term), _describe, "a provider's own ID of a request"
    ),
    Finder(LanguageModel, _models, lambda model: f"{model.name}{_off(model)}", "a part of a model's ID or name"),
    Finder(
        Provider,
        lambda term: Provider.objects.filter(pk__istartswith=term).order_by("pk"),
        lambda provider: f"{provider.kind}{_off(provider)}",
        "a provider, or its beginning",
    ),
    Finder(
        Route,
        _routes,
        lambda route: f"asks for {route.upstream_model}{_off(route)}",
        "a model as a provider calls it, or a route, such as acme/large at openai",
    ),
    Finder(
        Account,
        _statements,
        lambda account: f"statement of {account.month:%B %Y}",
        "the number of a monthly statement",
        address=lambda account: reverse(
            "admin:billing_account_month", args=[account.pk, account.month.year, account.month.month]
        ),
    ),
]
