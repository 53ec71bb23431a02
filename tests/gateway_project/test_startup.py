"""What a process says of exceptions that nothing handles, and what a web process loads before it serves."""

import subprocess
import sys

import pytest

PROGRAM = """
import threading
import gevent
from gateway_project import logs, startup
import logging.config

logging.config.dictConfig(logs.configuration(is_readable=False))
startup.log_uncaught_exceptions()

def fail():
    raise LookupError("lost")

{call}
"""


@pytest.mark.system
@pytest.mark.parametrize(
    "call",
    ["fail()", "thread = threading.Thread(target=fail); thread.start(); thread.join()", "gevent.spawn(fail).join()"],
    ids=["process", "thread", "greenlet"],
)
def test_an_exception_that_nothing_handles_is_one_line_of_json(call):
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(call=call)], capture_output=True, text=True)
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert '"message": "unexpected LookupError, which nothing handles"' in done.stderr
    assert "in fail" in done.stderr


WEB_PROCESS = """
import sys, gateway_project.wsgi
print(*sys.modules)
from django.test import Client
reply = Client().get("/accounts/login/", headers={"host": "localhost"})
print(reply.status_code, b'href="/docs"' in reply.content)
"""


@pytest.fixture(scope="module")
def web_process() -> "subprocess.CompletedProcess[str]":
    """A process that has loaded what a web process loads, and has then answered a page."""
    return subprocess.run([sys.executable, "-c", WEB_PROCESS], capture_output=True, text=True)


@pytest.mark.system
def test_a_web_process_loads_what_serves_the_api_and_nothing_that_pages_or_payments_need(web_process):
    loaded = set(web_process.stdout.partition("\n")[0].split())
    assert "completions.inbound.messages.views" in loaded
    seldom = {"celery", "stripe", "fido2", "drf_spectacular.openapi", "billing.desk.site", "keys.pages", "rankings.pages"}
    assert loaded & seldom == set()
    assert [module for module in loaded if module.endswith("admin") and module.startswith(("billing", "completions"))] == []


def test_the_first_page_finds_all_others(web_process):
    assert (web_process.returncode, web_process.stdout.splitlines()[1:]) == (0, ["200 True"]), web_process.stderr
