"""The style sheet of pages: rules of one component do not reach into another, as one name for two things once did."""

import itertools
import math
import re

import pytest

from completions.usage import figures
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


# --- Colours of charts ------------------------------------------------------------------------------------------------

COLOURS = SHEET.with_name("colours.css").read_text()
# Machado, Oliveira and Fernandes (2009): how linear RGB looks to people without one kind of cones.
SIGHTS = {
    "of all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "without red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "without green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "without blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
# Oklab (bottosson.github.io/posts/oklab): a distance of 0.02 is just visible side by side.
TO_CONES = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
TO_LAB = (
    (0.2104542553, 0.793617785, -0.0040720468),
    (1.9779984951, -2.428592205, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)
DISTANCE_MIN, CONTRAST_MIN = 0.1, 3


def linear(colour):
    values = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]


def times(matrix, vector):
    return [sum(factor * value for factor, value in zip(row, vector, strict=True)) for row in matrix]


def seen(colour, sight):
    light = [min(max(value, 0), 1) for value in times(SIGHTS[sight], linear(colour))]
    return times(TO_LAB, [value ** (1 / 3) for value in times(TO_CONES, light)])


def luminance(colour):
    return sum(factor * value for factor, value in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))


def named(name):
    """Return the colour in the light, and in the dark."""
    return re.search(rf"--{name}: light-dark\((#\w{{6}}), (#\w{{6}})\);", COLOURS).groups()


PARTS = [named(f"part-{number}") for number in range(figures.VALUES_SHOWN)]


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_the_parts_of_a_chart_differ_for_everybody(sight, is_dark):
    colours = [seen(part[is_dark], sight) for part in PARTS]
    assert min(math.dist(*pair) for pair in itertools.combinations(colours, 2)) >= DISTANCE_MIN


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_the_parts_of_a_chart_stand_out_from_their_card_more_than_the_others(is_dark):
    card = luminance(named("card")[is_dark])
    contrasts = []
    for name in [*(f"part-{number}" for number in range(figures.VALUES_SHOWN)), "part-other"]:
        darker, lighter = sorted((card, luminance(named(name)[is_dark])))
        contrasts.append((lighter + 0.05) / (darker + 0.05))
    *parts, others = contrasts
    assert min(parts) >= CONTRAST_MIN
    assert others < min(parts)
