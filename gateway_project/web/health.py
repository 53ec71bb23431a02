"""Probes for liveness and readiness, and the metrics page."""

from functools import cache
from ipaddress import ip_address

import gevent
from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils.crypto import constant_time_compare

from gateway_project import app_config, errors, installation, logs, metrics
from gateway_project.db import cell, everywhere, pool
from gateway_project.db.group_commit import OutcomeUnknown, WaitTimedOut
from gateway_project.deadline import ends_within
from gateway_project.web import error_replies

READY_SECONDS = 1.5  # a probe of two seconds must get the reply


def alive(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"status": "alive"})


def ready(request: HttpRequest) -> HttpResponse:
    """Reply 200 when the database answers, has all migrations and serves what the apps' requests need, otherwise 503."""
    checking = gevent.spawn(_unreadiness)  # it may take longer, since it may have begun a batch that others share
    error = checking.get() if ends_within(checking, READY_SECONDS) else TimeoutError()
    if error is None:
        return JsonResponse({"status": "ready"})
    logs.explain(error)
    return error_replies.as_json(errors.ServiceUnavailable(f"Not ready: {_reason(error)}."), request)


def _unreadiness() -> Exception | None:
    try:
        with pool.time_limit():
            cell.execute("SELECT 1")
            require_migrated()
        pool.release_connection()
        for app in app_config.installed():
            app.require_ready()
    except (*pool.DATABASE_ERRORS, OutcomeUnknown, WaitTimedOut, NotMigrated, errors.ServiceUnavailable) as error:
        return error
    finally:
        pool.release_connection()  # it is that of this greenlet
    return None


def _reason(error: Exception) -> str:
    if isinstance(error, NotMigrated):
        return "migrations are missing"
    if isinstance(error, errors.ServiceUnavailable):
        return "no settlement can be kept on disk"
    if pool.is_lock_timeout(error):
        return "another session keeps a table locked"
    return "the database takes no writes" if pool.is_read_only(error) else "the database does not answer"


class NotMigrated(Exception):
    """The database has not all migrations of this code."""


def require_migrated_if_reachable() -> None:
    """Raises NotMigrated. Without a database, requests are refused, and served when it is back."""
    try:
        with pool.time_limit():
            require_migrated()
    except pool.DATABASE_ERRORS:
        pass
    finally:
        pool.release_connection()


@cache  # caches success only: a schema does not lose migrations while the process runs
def require_migrated() -> None:
    """Raises NotMigrated, also for a cell that lacks a migration; or the database's errors."""
    _require_cell_migrated()  # first: there may be no table of cells yet
    if others := cell.numbers()[1:]:
        everywhere.run(_require_cell_migrated, may_miss=True, numbers=others)


def _require_cell_migrated() -> None:
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise NotMigrated(f"migrations are missing: run {installation.COMMAND} migrate")


METRICS_CONTENT_TYPE = "text/plain; version=0.0.4"

# A request that has one of these came through a proxy, so its peer is the proxy.
_PROXY_HEADERS = {
    *("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP"),
    *(f"HTTP_X_FORWARDED_{fact}" for fact in ("FOR", "HOST", "PORT", "PROTO")),
}


def metrics_text(request: HttpRequest, *, is_own_address: bool = False) -> HttpResponse:
    """Reply with the metrics in Prometheus' text format. They name models, providers and rates, which are not public.

    ``is_own_address``: the request came to GATEWAY_METRICS_BIND. Where GATEWAY_METRICS_SECRET is set, every address asks for
    it. On a developer's machine, programs of the machine itself need neither. To all others the path does not exist.
    """
    may_read = has_metrics_secret(request.META.get("HTTP_AUTHORIZATION", "")) or _is_from_developer(request)
    if not (may_read or (is_own_address and not settings.METRICS_SECRET)):
        if not settings.METRICS_SECRET:
            raise Http404
        return error_replies.as_json(errors.InvalidApiKey(_NOT_PERMITTED), request)
    return HttpResponse(metrics.render(), content_type=METRICS_CONTENT_TYPE)


_NOT_PERMITTED = "Incorrect API key provided: send the secret of the metrics as Authorization: Bearer <GATEWAY_METRICS_SECRET>."


def has_metrics_secret(authorization: str) -> bool:
    """Return whether the value of the Authorization header is GATEWAY_METRICS_SECRET as a bearer token."""
    scheme, _, secret = authorization.replace("\t", " ").partition(" ")
    is_given = bool(settings.METRICS_SECRET) and scheme.lower() == "bearer"
    return is_given and constant_time_compare(secret.strip(), settings.METRICS_SECRET)


def _is_from_developer(request: HttpRequest) -> bool:
    if not settings.GATEWAY_DEVELOPMENT or not _PROXY_HEADERS.isdisjoint(request.META):
        return False
    try:
        peer = ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:  # a unix socket has no address
        return False
    return (getattr(peer, "ipv4_mapped", None) or peer).is_loopback
