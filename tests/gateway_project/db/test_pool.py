"""How long statements of web processes may take."""

import threading

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client

from gateway_project.db import pool


@pytest.fixture
def limited(monkeypatch):
    """Threads' connections allow a statement one second."""
    monkeypatch.delitem(connection.settings_dict, "STATEMENT_SECONDS", raising=False)
    pool.limit_queries(1)
    yield
    del connection.settings_dict["STATEMENT_SECONDS"]


def in_a_thread(work):
    results = []

    def run():
        try:
            results.append(work())
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


def ask_for_timeout():
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        return cursor.fetchone()[0]


def test_statements_are_limited_where_web_processes_ask_for_it(db, monkeypatch):
    monkeypatch.delitem(connection.settings_dict, "STATEMENT_SECONDS", raising=False)
    assert in_a_thread(ask_for_timeout) == "0"
    monkeypatch.setitem(connection.settings_dict, "STATEMENT_SECONDS", settings.PAGE_QUERY_SECONDS)
    assert in_a_thread(ask_for_timeout) == "5s"


def test_a_page_whose_query_takes_too_long_says_so(db, limited):
    client = Client(headers={"accept": "text/html"})
    client.cookies[settings.SESSION_COOKIE_NAME] = "s" * 32
    with connection.cursor() as cursor:
        cursor.execute("LOCK TABLE django_session IN ACCESS EXCLUSIVE MODE")
        reply = in_a_thread(lambda: client.get("/dashboard/"))
    assert (reply.status_code, reply["Retry-After"]) == (503, "2")
    assert "This takes too long. Select less, such as fewer days." in reply.content.decode()
