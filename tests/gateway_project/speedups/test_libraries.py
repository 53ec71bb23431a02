"""What is replaced in libraries is what was compared with the installed versions."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from django.core.checks import run_checks
from gunicorn.http.wsgi import Response

from gateway_project import metrics
from gateway_project.speedups import gunicorn, libraries

HERE = Path(__file__).parent


def told() -> dict[str, float]:
    libraries.tell()
    return {library: metrics.speedups_off.labels(library)._value.get() for library in libraries.COMPARED}


def findings() -> list[str]:
    return [finding.msg for finding in run_checks() if finding.id == "gateway.W018"]


def test_the_installed_versions_were_compared():
    assert (libraries.unknown(), findings()) == ([], [])
    assert set(told().values()) == {0}


@pytest.mark.parametrize("library", libraries.COMPARED)
def test_each_speedup_names_the_test_that_compares_it(library):
    tests = re.findall(r"^def (test_\w+)", (HERE / f"test_{library}.py").read_text(), re.MULTILINE)
    speedups = import_module(f"gateway_project.speedups.{library}").SPEEDUPS
    assert speedups
    assert {speedup.test for speedup in speedups} <= set(tests)
    assert len({speedup.name for speedup in speedups}) == len(speedups)


def test_another_version_of_a_library_serves_itself_and_is_told(monkeypatch):
    monkeypatch.setitem(libraries.COMPARED, "gunicorn", {"1.0"})
    libraries.install("gunicorn")
    assert Response.write is not gunicorn.write
    assert told() == {"django": 0, "gevent": 0, "gunicorn": 1}
    assert findings() == [f"gunicorn {libraries.version('gunicorn')} runs without its speedups."]


def test_whoever_turns_speedups_off_needs_no_warning(monkeypatch, settings):
    monkeypatch.setenv("GATEWAY_SPEEDUPS", "0")
    settings.SPEEDUPS = False
    monkeypatch.setitem(libraries.COMPARED, "gunicorn", {"1.0"})
    libraries.install("gunicorn")
    assert Response.write is not gunicorn.write
    assert (set(told().values()), findings()) == ({1}, [])
