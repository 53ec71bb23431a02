"""Probes and metrics, which need no key."""

import threading

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from gevent.event import Event

from completions.apps import CompletionsConfig
from gateway_project.web import health
from tests import chat, factories, outage
from tests.conftest import client_for
from tests.faults import fault


@pytest.fixture
def probe():
    """A client without a key. Clears the cached result of the migration check."""
    health.require_migrated.cache_clear()
    yield client_for(None)
    health.require_migrated.cache_clear()


def test_alive_needs_no_database(probe):
    reply = outage.with_the_database_unavailable(lambda: probe.get("/healthz"))
    assert (reply.status_code, reply.json()) == (200, {"status": "alive"})


def test_ready_when_the_database_answers_and_is_migrated(db, probe):
    reply = probe.get("/readyz")
    assert (reply.status_code, reply.json()) == (200, {"status": "ready"})


@fault(
    "Deployment",
    "Code starts before its migrations ran",
    "`/readyz` replies 503",
)
@pytest.mark.parametrize("app", ["billing", "completions"])
@pytest.mark.one_cell
def test_not_ready_while_a_migration_is_missing(db, probe, app):
    [latest] = MigrationLoader(None).graph.leaf_nodes(app)
    missing = MigrationRecorder.Migration.objects.get(app=app, name=latest[1])
    missing.delete()
    error = chat.assert_error(probe.get("/readyz"), 503, "service_unavailable")
    assert error["message"] == "Not ready: migrations are missing."
    MigrationRecorder.Migration(app=missing.app, name=missing.name).save()
    assert probe.get("/readyz").status_code == 200  # as soon as it is there: only success is remembered


def test_not_ready_while_the_database_is_unavailable_and_ready_afterwards(db, probe):
    assert probe.get("/readyz").status_code == 200
    reply = outage.with_the_database_unavailable(lambda: probe.get("/readyz"))
    error = chat.assert_error(reply, 503, "service_unavailable")
    assert error["message"] == "Not ready: the database does not answer."
    assert reply["retry-after"]
    assert probe.get("/readyz").status_code == 200


@fault(
    "Database",
    "A probe's query takes longer than its caller waits",
    "`/readyz` replies 503 without waiting for it",
)
def test_not_ready_while_what_is_asked_takes_too_long(db, probe, monkeypatch):
    answered = Event()
    monkeypatch.setattr(CompletionsConfig, "require_ready", lambda app: answered.wait())
    error = chat.assert_error(probe.get("/readyz"), 503, "service_unavailable")
    assert error["message"] == "Not ready: the database does not answer."
    answered.set()
    assert probe.get("/readyz").status_code == 200


def test_not_ready_on_a_lost_connection(db, probe):
    """The server closed an idle connection: the next query on it fails."""
    replies = []

    def run() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        connection.connection.close()
        replies.append(probe.get("/readyz"))
        connection.close()
        replies.append(probe.get("/readyz"))
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    chat.assert_error(replies[0], 503, "service_unavailable")
    assert replies[1].status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_probes_need_no_host_name_and_no_key(db, probe, path, settings):
    settings.GATEWAY_API_HOST, settings.GATEWAY_BASE_HOST = "api.example.org", "example.org"
    assert probe.get(path, HTTP_HOST="10.1.2.3").status_code == 200


# --- Metrics ----------------------------------------------------------------------------------------------------------


def metrics(probe) -> str:
    reply = probe.get("/metrics")
    assert reply["content-type"] == "text/plain; version=0.0.4"
    return reply.content.decode()


LOCAL = ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"]
ELSEWHERE = ["10.1.2.3", "::ffff:10.1.2.3", "2001:db8::1", ""]
SECRET = "m" * 40


@pytest.mark.parametrize("peer", LOCAL)
def test_metrics_are_for_programs_on_a_developers_machine(probe, peer):
    assert probe.get("/metrics", REMOTE_ADDR=peer).status_code == 200


@pytest.mark.parametrize(
    "request_notes",
    [
        *({"REMOTE_ADDR": peer} for peer in ELSEWHERE),
        {"HTTP_X_FORWARDED_FOR": "203.0.113.9"},
        {"HTTP_X_FORWARDED_PROTO": "https"},
        {"HTTP_FORWARDED": "for=203.0.113.9"},
        {"HTTP_VIA": "1.1 proxy"},
    ],
    ids=str,
)
def test_metrics_of_a_developers_machine_are_not_for_others(probe, request_notes):
    chat.assert_error(probe.get("/metrics", **request_notes), 404, "invalid_request_error")


@pytest.mark.parametrize("peer", [*LOCAL, *ELSEWHERE])
def test_metrics_of_a_deployment_have_no_public_address(probe, settings, peer):
    settings.GATEWAY_DEVELOPMENT = False
    chat.assert_error(probe.get("/metrics", REMOTE_ADDR=peer), 404, "invalid_request_error")


def test_metrics_of_a_deployment_are_served_to_those_with_the_secret(probe, settings):
    settings.GATEWAY_DEVELOPMENT, settings.METRICS_SECRET = False, SECRET
    for given in (f"Bearer {SECRET}", f"bearer {SECRET}"):
        assert probe.get("/metrics", HTTP_AUTHORIZATION=given).status_code == 200


@pytest.mark.parametrize(
    "given", [None, "", SECRET, f"Basic {SECRET}", "Bearer ", f"Bearer {SECRET}x", f"Bearer {SECRET[1:]}", "Bearer \xe9"]
)
def test_metrics_without_the_right_secret_are_refused(probe, settings, given):
    settings.GATEWAY_DEVELOPMENT, settings.METRICS_SECRET = False, SECRET
    reply = probe.get("/metrics", **({} if given is None else {"HTTP_AUTHORIZATION": given}))
    chat.assert_error(reply, 401, "invalid_api_key")
    assert reply["www-authenticate"] == "Bearer"
    assert b"gateway_" not in reply.content


def test_an_api_key_does_not_open_the_metrics(probe, alice, settings):
    settings.GATEWAY_DEVELOPMENT = False
    assert client_for(factories.make_key(alice)[1]).get("/metrics").status_code == 404
    settings.METRICS_SECRET = SECRET
    assert client_for(factories.make_key(alice)[1]).get("/metrics").status_code == 401


def count(text: str, line: str) -> float:
    """Return the value of the sample that begins with ``line``."""
    return sum(float(sample.rpartition(" ")[2]) for sample in text.splitlines() if sample.startswith(f"{line} "))


def test_requests_are_counted_by_route_method_and_status(alice, probe, echo_model):
    client = client_for(factories.make_key(alice)[1])
    samples = [
        'gateway_requests_total{method="POST",route="v1/chat/completions",status="200"}',
        'gateway_requests_total{method="GET",route="v1/models/<path:model_id>",status="404"}',
        'gateway_requests_total{method="GET",route="v1/<path:nothing>",status="404"}',
        'gateway_requests_total{method="GET",route="unknown",status="404"}',
        'gateway_request_seconds_count{route="v1/chat/completions"}',
        'gateway_completions_total{model="demo/echo",settlement="reported"}',
    ]
    before = metrics(probe)
    chat.ask(client)
    client.get("/v1/models/demo/nobody")
    client.get("/v1/files")
    client.get("/nothing")
    after = metrics(probe)
    assert [count(after, sample) - count(before, sample) for sample in samples] == [1, 1, 1, 1, 1, 1]


def test_made_up_paths_and_methods_add_no_metric_labels(alice, probe, echo_model):
    key, secret = factories.make_key(alice)
    client = client_for(secret)
    client.get("/v1/models/marker-path?marker=query", HTTP_USER_AGENT="marker-agent")
    client.get("/marker-path")
    client.generic("MARKER", "/v1/models")
    chat.ask(client, model="marker/model")
    text = metrics(probe)
    assert "marker" not in text.lower()
    assert key.pk not in text
    assert secret not in text
    assert 'method="other"' in text
