"""An app of the gateway: what it adds to what knows no app, such as the desk, the metrics, the audit and the readiness probe.

Each ``apps.py`` overrides the methods of what it adds. They import when they are called: a web process loads no pages of staff.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django.apps import AppConfig, apps

Tables = dict[str, Callable[[Any], Iterator[dict[str, Any]]]]  # by the names of files


class Desk(NamedTuple):
    """Panels of the admin's home page, sections of an account's page, finders of the search."""

    panels: Sequence[Any] = ()
    sections: Sequence[Any] = ()
    finders: Sequence[Any] = ()


class Audit(NamedTuple):
    """Invariants of ``billing.ledger.audit``, the tables they select from, and how it finds what was booked on some days."""

    invariants: Sequence[Any] = ()
    tables: Mapping[str, str] = {}
    day_tables: Mapping[str, str] = {}
    late_ids: Sequence[str] = ()


class GatewayApp(AppConfig):
    def desk(self) -> Desk:
        return Desk()

    def facts(self) -> Iterable[Any]:
        """Return each ``monitoring.facts.Fact`` of the database, and ``HostGauge`` of what only a host itself can measure."""
        return ()

    def audit(self) -> Audit:
        return Audit()

    def require_ready(self) -> None:
        """Raise the database's errors, or ServiceUnavailable for the disk, if the app's requests cannot be served."""

    def known_models(self, ids: Collection[str]) -> Iterable[str]:
        """Return those of the ids that are models or aliases of the catalog."""
        return ()

    def scores(self, model_ids: Collection[str]) -> Mapping[str, Any]:
        """Return what the app's rankings say of models, by their ids, for the templates of their pages."""
        return {}

    def spender_names(
        self, account: Any, *, limit: int, ids: Collection[str] | None = None, text: str | None = None
    ) -> dict[str, str]:
        """Return the names of at most ``limit`` spenders of an account by their ids, the newest first.

        With ``ids``, of these; with ``text``, of those with this id, or this name in any case.
        """
        return {}

    def exported_tables(self) -> Tables:
        """Return the tables of an account's export: each reads the account's rows a few at a time."""
        return {}

    def erase(self, account: Any) -> None:
        """Erase the personal data of an account that ``OwnedModel.kept`` does not tell of, in the transaction that locks it."""


def installed() -> list[GatewayApp]:
    """Return the apps in the order of the settings."""
    return [app for app in apps.get_app_configs() if isinstance(app, GatewayApp)]


def spender_names(account: Any, *, limit: int, **asked: Any) -> dict[str, str]:
    """Return what ``GatewayApp.spender_names`` of all apps finds: the names of those who spent, the ``spender`` of entries."""
    found = [app.spender_names(account, limit=limit, **asked) for app in installed()]
    return {id: name for names in found for id, name in names.items()}


def scores(model_ids: Collection[str]) -> dict[str, Any]:
    """Return what ``GatewayApp.scores`` of all apps finds."""
    return {model_id: found for app in installed() for model_id, found in app.scores(model_ids).items()}


def unknown_models(ids: Collection[str]) -> list[str]:
    """Return those of the ids that are no model and no alias of the catalog."""
    known = {model_id for app in installed() for model_id in app.known_models(ids)}
    return [model_id for model_id in ids if model_id not in known]
