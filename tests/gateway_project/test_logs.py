"""Lines are those of logging and of python-json-logger, which take more calls."""

import io
import json
import logging
import sys
from uuid import UUID

import pytest
from pythonjsonlogger.json import JsonFormatter

from gateway_project import logs

ARGUMENTS = [("no arguments", ()), ("%s and %d", ("one", 2)), ("%(name)s", ({"name": "é"},)), ("%s", ({},))]
EXTRA = {"status": 200, "id": UUID(int=1), "request_id": "req_1", "none": None, "_hidden": 1, "failures": ["a"]}


def make_record(make=logging.LogRecord, message="done", arguments=(), exc_info=None, level=logging.WARNING):
    record = make("gateway.request", level, "/folder/file.py", 7, message, arguments, exc_info, None, None)
    record.__dict__.update(EXTRA, created=1_700_000_000.25)
    return record


@pytest.mark.parametrize(("message", "arguments"), ARGUMENTS)
@pytest.mark.parametrize("level", [logging.INFO, 17])
def test_a_record_is_that_of_logging_but_for_what_no_line_shows(message, arguments, level):
    ours, other = (make_record(make, message, arguments, level=level) for make in (logs.Record, logging.LogRecord))
    assert ours.getMessage() == other.getMessage()
    unused = {"filename", "module", "relativeCreated", "thread", "threadName", "process", "processName", "taskName", "msecs"}
    assert vars(ours) | {"msecs": 0} == {name: value for name, value in vars(other).items() if name not in unused} | {
        "msecs": 0
    }


@pytest.mark.parametrize("message", ["done", {"a": "dictionary"}, 7])
@pytest.mark.parametrize("has_failed", [False, True])
@pytest.mark.parametrize("make", [logs.Record, logging.LogRecord])
def test_a_line_is_that_of_the_library(message, has_failed, make):
    try:
        raise ValueError("why")
    except ValueError:
        exc_info = sys.exc_info() if has_failed else None
    ours = logs.JsonLineFormatter()
    assert ours.format(make_record(make, message, exc_info=exc_info)) == JsonFormatter.format(
        ours, make_record(make, message, exc_info=exc_info)
    )
    readable = logs.ReadableLineFormatter()
    assert readable.format(make_record(make, message, exc_info=exc_info)) == logging.Formatter.format(
        readable, make_record(make, message, exc_info=exc_info)
    )


def test_a_line_that_cannot_be_written_is_reported_and_stops_nobody(capsys):
    written = io.StringIO()
    handler = logs.LineHandler(written)
    handler.setFormatter(logs.ReadableLineFormatter())
    assert handler.handle(make_record(message="%d", arguments=("one",)))
    assert "TypeError" in capsys.readouterr().err
    assert handler.handle(make_record())
    handler.addFilter(lambda record: False)
    assert not handler.handle(make_record())
    assert written.getvalue().endswith(" WARNING gateway.request done\n")
    assert written.getvalue().count("\n") == 1


@pytest.mark.parametrize("cause", [None, ValueError("why")])
@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
def test_what_is_written_is_what_logging_would_write(caplog, cause, level):
    logger = logging.getLogger("gateway.request")
    with caplog.at_level(logging.INFO, "gateway.request"):
        logs.write(logger, level, "%s and %d", ("one", 2), EXTRA, cause)
        logger.log(level, "%s and %d", "one", 2, extra=EXTRA, exc_info=cause)
    where = {"pathname", "filename", "module", "lineno", "funcName", "created", "msecs", "relativeCreated"}
    written = [{name: value for name, value in vars(record).items() if name not in where} for record in caplog.records]
    assert written[:1] == written[1:]
    assert len(written) == (0 if level == logging.DEBUG else 2)


@pytest.mark.parametrize("character", ["\x1b", "\x7f", "\x9b", "\u2028", "é"])
def test_no_character_ends_a_line_or_commands_a_terminal(character):
    record = make_record(message=f"a{character}b")
    written = logs.JsonLineFormatter().format(record)
    assert written.isascii()
    assert written.isprintable()
    assert json.loads(written)["message"] == f"a{character}b"


@pytest.mark.parametrize("value", ["half of a pair: \ud83d", OSError("no room")])
def test_a_line_has_what_json_has_no_type_for(value):
    record = make_record()
    record.__dict__["fact"] = value
    written = json.loads(logs.JsonLineFormatter().format(record))
    assert written["fact"] == json.loads(JsonFormatter.format(logs.JsonLineFormatter(), record))["fact"]
