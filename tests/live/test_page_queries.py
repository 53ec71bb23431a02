"""Queries of pages on a real server: one whose client has hung up is cancelled."""

import pytest
from django.conf import settings
from django.db import connection, transaction

from tests import waiting


@pytest.mark.parametrize("path", ["/dashboard/", "/dashboard/requests/"])
def test_the_query_of_a_page_is_cancelled_when_its_client_has_left(gateway, alice, path):
    mark = len(gateway.log())
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE django_session IN ACCESS EXCLUSIVE MODE")
        client = gateway.dial()
        cookie = f"{settings.SESSION_COOKIE_NAME}={'s' * 32}"
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\n\r\n".encode())
        waiting.until(waiting.somebody_waits)
        client.close()
        waiting.until(lambda: gateway.answered(f"GET {path} 408", since=mark))
        assert not waiting.somebody_waits()
    assert gateway.answered(f"GET {path} 408", since=mark) == 1
    assert gateway.request("GET", "/readyz").status == 200
