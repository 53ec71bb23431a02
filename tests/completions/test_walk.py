"""The walk from a request to its ledger entry: which modules hand a completion on, in which order.

A module is on the walk if it is on the call stack when the hold is placed, when the provider is asked, or when the entry is
made. What is called on the way and returns (parsing, eligibility, prices) is beside it, and ``gateway_project`` is below it.
The README shows the walk: this test follows a request, and compares.
"""

import inspect
import re
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from billing.ledger import holds, writer
from completions.providers.adapters import OpenAIAdapter
from tests import chat

ROOT = Path(__file__).resolve().parent.parent.parent
APPS = ("billing/", "keys/", "completions/")
MODULES_MAX, CLIMBS_MAX = 10, 2
GOALS: list[Callable[..., Any]] = [holds.place, OpenAIAdapter.complete, writer.debit_usage]


def followed(run: Callable[[], Any], goals: list[Callable[..., Any]]) -> list[list[str]]:
    """Return the modules on the call stack when ``run`` first enters each of the goals, in their order."""
    stacks: dict[CodeType, list[str]] = {}
    codes = [inspect.unwrap(goal).__code__ for goal in goals]

    def notice(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code in codes:
            stacks.setdefault(frame.f_code, modules(frame))

    sys.setprofile(notice)
    try:
        run()
    finally:
        sys.setprofile(None)
    return [stacks[code] for code in codes]


def climbs(stack: list[str]) -> set[tuple[str, str]]:
    """Return where a call returns to a module that the walk had left."""
    return {
        (left, entered) for place, (left, entered) in enumerate(pairwise(stack)) if entered in stack[:place] and entered != left
    }


def modules(frame: FrameType | None) -> list[str]:
    """Return the apps' modules on the stack, the outermost first."""
    found = []
    while frame:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT) and (name := str(path.relative_to(ROOT))).startswith(APPS):
            found.append(name)
        frame = frame.f_back
    return found[::-1]


def in_the_readme() -> list[str]:
    _, _, text = (ROOT / "README.md").read_text().partition("A request, file after file:\n\n")
    walk, _, _ = text.partition("\n\n")
    return re.findall(r"^ {4}(\S+\.py) ", walk, re.MULTILINE)


@pytest.mark.usefixtures("large", "upstream")
def test_a_request_reaches_the_ledger_by_the_modules_that_the_readme_names(api):
    stacks = followed(lambda: chat.ask(api, model="acme/large"), GOALS)
    walk = list(dict.fromkeys(module for stack in stacks for module in stack))
    assert walk == in_the_readme()
    assert len(walk) <= MODULES_MAX
    assert len(set.union(*map(climbs, stacks))) <= CLIMBS_MAX
