"""What a process says of exceptions that nothing handles."""

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
