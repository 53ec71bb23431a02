"""A request that the gateway sends."""

import time

from gateway_project.net import http

DEADLINES = http.Deadlines(connect_seconds=60, first_byte_seconds=60, idle_seconds=60, total_seconds=60)


def post(url, body=b"{}", seconds=60.0):
    return http.send(url, headers={}, body=body, deadlines=DEADLINES, until=time.monotonic() + seconds).wait()
