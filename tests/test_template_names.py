"""What ``tests.template_names`` finds in templates."""

from types import SimpleNamespace

import pytest
from django.template import Context, Origin, Template

from tests import template_names

VALUES = {"bar": SimpleNamespace(height=1), "nobody": None, "rows": {"first": 1}}


def missing(source, directory=template_names.ROOT):
    """Return what the template names that is not there, and forget it."""
    Template(source, origin=Origin(f"{directory}/page.html", "page.html")).render(Context(VALUES))
    found = {each.removeprefix("page.html: ") for each in template_names.missing}
    template_names.missing.clear()
    return found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("{{ bar.spent }}", "bar.spent"),
        ("{{ title }}", "title"),
        ("{{ nobody.role }}", "nobody.role"),
        ("{{ rows.second|default:'' }}", "rows.second|default:''"),
        ("{% if bar.spent == 1 %}{% endif %}", "bar.spent"),
        ("{% if rows.second %}{% endif %}", "rows.second"),
        ("{% for each in entries %}{% endfor %}", "entries"),
        ("{% with spent=bar.spent %}{% endwith %}", "bar.spent"),
    ],
)
def test_a_name_of_what_is_not_there_is_found(source, found):
    assert missing(source) == {found}


def test_what_may_be_missing_is_not_found():
    for source in (
        "{{ bar.height }}{{ rows.first }}{{ nobody }}",
        "{% if title %}{% endif %}{{ title|default:'Page' }}",
        "{% if nobody.role %}{% endif %}{% if title.words %}{% endif %}",
    ):
        assert missing(source) == set(), source


def test_templates_of_libraries_are_left_alone():
    assert missing("{{ bar.spent }}", "/library/templates") == set()
