"""Which refusals let nginx give a request to another host: those of a host that is out of order and took nothing."""

from http import HTTPStatus
from typing import Any

import psycopg
import pytest
from django.db import InterfaceError, OperationalError, ProgrammingError

from completions.charging.recovery import reserve
from completions.models import Completion
from gateway_project import errors
from gateway_project.db.group_commit import OutcomeUnknown, WaitTimedOut
from gateway_project.web import error_replies
from tests import chat, factories, outage
from tests.conftest import client_for

NGINX = {"X-Gateway-Another-Host": "1"}


def caused_by(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def refused(error: Exception, kind: type[psycopg.Error]) -> Exception:
    return caused_by(error, kind("refused"))


@pytest.mark.parametrize(
    ("exception", "is_of_this_host"),
    [
        pytest.param(OperationalError("connection refused"), True, id="unreachable"),
        pytest.param(InterfaceError("connection already closed"), True, id="closed"),
        pytest.param(refused(OperationalError(), psycopg.errors.TooManyConnections), True, id="too-many-connections"),
        pytest.param(refused(OperationalError(), psycopg.errors.InvalidPassword), True, id="password"),
        pytest.param(refused(ProgrammingError(), psycopg.errors.InsufficientPrivilege), True, id="no-rights"),
        pytest.param(refused(OperationalError(), psycopg.errors.ReadOnlySqlTransaction), True, id="no-writes"),
        pytest.param(refused(WaitTimedOut(), psycopg.errors.ReadOnlySqlTransaction), True, id="no-writes-a-moment-ago"),
        pytest.param(refused(OperationalError(), psycopg.errors.LockNotAvailable), False, id="locked-for-all-hosts"),
        pytest.param(refused(OperationalError(), psycopg.errors.QueryCanceled), False, id="takes-too-long"),
        pytest.param(OutcomeUnknown("lost during the commit"), False, id="perhaps-committed"),
        pytest.param(caused_by(OutcomeUnknown(), OperationalError("refused")), False, id="perhaps-committed-and-then-refused"),
        pytest.param(WaitTimedOut("the batch did not end in time"), False, id="perhaps-committed-later"),
        pytest.param(ValueError("a fault of ours"), False, id="unexpected"),
    ],
)
def test_another_host_may_be_better_off_only_where_this_one_is_refused_or_cut_off(exception, is_of_this_host):
    assert isinstance(error_replies.translate(exception), errors.HostUnavailable) == is_of_this_host


def ask(secret: str, headers: dict[str, str]) -> Any:
    return client_for(secret).post(chat.PATH, chat.body(max_tokens=10), content_type="application/json", headers=headers)


@pytest.mark.parametrize("headers", [NGINX, NGINX | {"Idempotency-Key": "again"}])
def test_a_completion_that_the_disk_refuses_goes_to_another_host_and_leaves_nothing(alice, echo_model, monkeypatch, headers):
    secret = factories.make_key(alice)[1]
    monkeypatch.setattr(reserve, "refusal", OSError("No space left on device"))
    reply = ask(secret, headers)
    assert (reply.status_code, reply["X-Accel-Redirect"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "@another_host")
    assert not Completion.objects.exists()
    monkeypatch.undo()
    assert ask(secret, headers).status_code == HTTPStatus.OK
    assert Completion.objects.count() == 1


def test_nothing_is_redirected_that_did_not_come_through_our_nginx(alice, echo_model, monkeypatch):
    monkeypatch.setattr(reserve, "refusal", OSError("No space left on device"))
    reply = ask(factories.make_key(alice)[1], {})
    assert reply.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    assert "X-Accel-Redirect" not in reply


@pytest.mark.django_db(transaction=True)
def test_reads_go_to_another_host_while_the_database_is_away_and_forms_do_not(alice):
    client = client_for(factories.make_key(alice)[1])
    client.cookies["sessionid"] = "a" * 32

    def redirects(method: str, path: str) -> tuple[int, bool]:
        reply = outage.with_the_database_unavailable(
            lambda: client.generic(method, path, "{}", content_type="application/json", headers=NGINX)
        )
        return reply.status_code, "X-Accel-Redirect" in reply

    assert redirects("GET", "/v1/usage") == redirects("GET", "/dashboard/") == (503, True)
    assert redirects("POST", "/dashboard/") == (503, False)
