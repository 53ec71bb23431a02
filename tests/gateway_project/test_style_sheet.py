"""The style sheet of pages: rules of one component do not reach into another, as one name for two things once did."""

import re

from gateway_project import installation

SHEET = installation.TEMPLATES / "static" / "dashboard" / "dashboard.css"
_TITLE = re.compile(r"^/\* --- (.+) --- \*/$", re.MULTILINE)


def sections(css):
    """Yield the title of each component and the first class of each of its selectors."""
    base, *parts = _TITLE.split(css.partition("@media")[0])
    for title, part in [("", base), *zip(parts[::2], parts[1::2], strict=True)]:
        rules = re.sub(r"/\*.*?\*/", "", part, flags=re.DOTALL)
        for selectors in re.findall(r"^([^{}]+)\{", rules, re.MULTILINE):
            for selector in re.split(r",(?![^(]*\))", selectors):
                if found := re.match(r"\s*[a-z]*\.([\w-]+)", selector):
                    yield title, found[1]


def collisions(css):
    """Return the classes with which the selectors of more than one component begin."""
    components = {}
    for title, name in sections(css):
        components.setdefault(name, set()).add(title)
    return {name: titles for name, titles in components.items() if len(titles) > 1}


def test_each_class_belongs_to_one_component():
    assert collisions(SHEET.read_text()) == {}


def test_a_class_of_two_components_is_found():
    docs = "/* --- Docs --- */\n.docs .method { x: y; }\n.a, p.b { x: y; }\n"
    css = docs + "/* --- Rankings --- */\n.rankings .method { x: y; }\n.b dd { x: y; }\n"
    assert collisions(css) == {"b": {"Docs", "Rankings"}}
