"""Imports run one way: leaves <- billing <- keys <- completions; rankings stands beside. Read off the syntax trees."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LEAVES = {
    "gateway_project.addresses",
    "gateway_project.api",
    "gateway_project.database",
    "gateway_project.development",
    "gateway_project.draining",
    "gateway_project.environment",
    "gateway_project.errors",
    "gateway_project.group_commit",
    "gateway_project.http",
    "gateway_project.identifiers",
    "gateway_project.metrics",
    "gateway_project.openapi",
    "gateway_project.pages",
    "gateway_project.request_log",
    "gateway_project.secretbox",
    "gateway_project.strict_json",
    "gateway_project.timestamps",
}
MAY_IMPORT = {
    "billing": LEAVES,
    "keys": LEAVES | {"billing"},
    "completions": LEAVES | {"billing", "keys"},
    "rankings": LEAVES | {"completions.models"},
    **dict.fromkeys(LEAVES, LEAVES),
}
APPS = {"billing", "keys", "completions", "rankings"}
NOT_NOUNS = {"utils", "helpers", "common", "services"}


def house() -> Iterator[tuple[str, str]]:
    """Every module of the apps and of the frame: its dotted name and its source."""
    for package in sorted(APPS | {"gateway_project"}):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path.read_text()


def imports(module: str, source: str) -> Iterator[str]:
    """What a module imports, wherever in it: ``from a import b`` is a.b, which may be a module or a name in one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")[: -node.level] if node.level else []
            yield from (".".join([*base, *filter(None, [node.module]), alias.name]) for alias in node.names)


def unlawful(module: str, source: str) -> list[str]:
    app = module.partition(".")[0]
    owner = app if app in APPS else module
    if owner not in MAY_IMPORT:
        return []  # wiring knows everybody
    lawful = MAY_IMPORT[owner] | {owner}
    inside = [name for name in imports(module, source) if name.partition(".")[0] in APPS | {"gateway_project"}]
    return [name for name in inside if not any(f"{name}.".startswith(f"{allowed}.") for allowed in lawful)]


def test_imports_run_one_way():
    assert {module: found for module, source in house() if (found := unlawful(module, source))} == {}


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("billing.ledger", "from keys.models import ApiKey", "keys.models.ApiKey"),
        ("billing.views", "def get():\n    import completions.models", "completions.models"),
        ("billing.tasks", "from gateway_project.settings import DEBUG", "gateway_project.settings.DEBUG"),
        ("keys.spending", "from completions import pricing", "completions.pricing"),
        ("keys.views", "from ..completions import admission", "completions.admission"),
        ("completions.catalog", "if TYPE_CHECKING:\n    from rankings.models import Entry", "rankings.models.Entry"),
        ("rankings.sync", "from billing.models import Account", "billing.models.Account"),
        ("rankings.views", "from completions import models, catalog", "completions.catalog"),
        ("gateway_project.errors", "import billing", "billing"),
        ("gateway_project.http", "from gateway_project import urls", "gateway_project.urls"),
    ],
)
def test_an_unlawful_import_is_found(module, source, found):
    assert unlawful(module, source) == [found]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("keys.spending", "from billing import money\nfrom gateway_project import errors\nimport math"),
        ("completions.admission", "from keys.authentication import Caller\nfrom . import pricing"),
        ("rankings.views", "from completions.models import LanguageModel"),
        ("gateway_project.urls", "import billing.urls"),
    ],
)
def test_a_lawful_import_is_not(module, source):
    assert unlawful(module, source) == []


def test_modules_are_named_for_what_they_are():
    assert [module for module, _ in house() if NOT_NOUNS & set(module.split("."))] == []


def test_every_leaf_that_the_law_names_exists():
    assert {module for module, _ in house()} >= LEAVES
