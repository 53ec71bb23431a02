"""Loops of templates let others be served."""

from typing import Any

import pytest
from django.template import engines
from django.template.loader import get_template

from gateway_project.templatetags import pauses
from tests.monotonic_clock import use_clock


@pytest.fixture
def clock(monkeypatch):
    clock: Any = use_clock(monkeypatch, pauses)
    clock.stop()
    clock.pauses = []
    monkeypatch.setattr(clock, "sleep", clock.pauses.append, raising=False)
    monkeypatch.setattr(pauses, "_began", clock.monotonic())
    return clock


def render(source, **context):
    return engines["django"].from_string(source).render(context)


def test_a_loop_renders_as_django_renders_it(clock):
    rows = "{% for row in rows %}{{ forloop.counter0 }}{{ row }} {% empty %}none{% endfor %}"
    assert (render(rows, rows=[]), render(rows, rows="abc")) == ("none", "0a 1b 2c ")
    assert clock.pauses == []


def test_a_slice_is_five_milliseconds(clock):
    def slow():
        clock.move_on(0.002)
        return ""

    render("{% for row in rows %}{{ slow }}{% endfor %}", rows=range(30), slow=slow)
    assert clock.pauses == [0] * 9  # before every third round


def test_the_tag_is_in_all_templates():
    for name in ("docs/reference.html", "admin/change_list.html", "dashboard/keys.html"):
        template: Any = get_template(name)
        assert template.template.engine.template_builtins[-1] is pauses.register
