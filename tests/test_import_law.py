"""Imports run one way: leaves <- billing <- keys <- completions; rankings stands beside. Read off the syntax trees.

A leaf is a module of gateway_project that says so in the first word of its docstring.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
APPS = {"billing", "keys", "completions", "rankings"}
NOT_NOUNS = {"utils", "helpers", "common", "services"}


def house() -> Iterator[tuple[str, str]]:
    """Every module of the apps and of the frame: its dotted name and its source."""
    for package in sorted(APPS | {"gateway_project"}):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path.read_text()


def is_leaf(module: str, source: str) -> bool:
    docstring = ast.get_docstring(ast.parse(source)) or ""
    return module.startswith("gateway_project.") and docstring.startswith("LEAF. ")


LEAVES = {module for module, source in house() if is_leaf(module, source)}
MAY_IMPORT = {
    "billing": LEAVES,
    "keys": LEAVES | {"billing"},
    "completions": LEAVES | {"billing", "keys"},
    "rankings": LEAVES | {"completions.models"},
    **dict.fromkeys(LEAVES, LEAVES),
}
# How completions import each other: a line imports the lines below it, and none its own, so that they can be read from the
# bottom up. What stands below the models is given plain values, and finds no rows.
INNER_ORDER = [
    {"urls"},
    {"views", "admin", "apps", "management"},
    {"tasks"},
    {"relay", "catalog_admin", "proposals_admin", "serializers", "checks"},
    {"settlement", "proposals", "catalog_file", "forms"},
    {"spool", "attempts"},
    {"admission", "resolution", "matching"},
    {"door", "catalog"},
    {"idempotency", "checkpoints", "circuits"},
    {"records", "catalog_rows", "catalog_sync"},
    {"models", "audit"},
    {"schema", "sizing", "providers"},
    {"messages", "pricing", "upstream_list", "list_request"},
    {"chat", "fields", "sse", "catalog_rules", "toml_table"},
]


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


def line(module: str) -> int:
    """In which line of the inner order a module of completions stands."""
    name = module.split(".")[1]
    [number] = [number for number, names in enumerate(INNER_ORDER) if name in names]
    return number


def disorderly(module: str, source: str) -> list[str]:
    return [name for name in imports(module, source) if name.startswith("completions.") and not _in_order(module, name)]


def _in_order(module: str, name: str) -> bool:
    return module.split(".")[1] == name.split(".")[1] or line(module) < line(name)


def test_imports_run_one_way():
    assert {module: found for module, source in house() if (found := unlawful(module, source))} == {}


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("billing.ledger", "from keys.models import ApiKey", "keys.models.ApiKey"),
        ("billing.views", "def get():\n    import completions.models", "completions.models"),
        ("billing.tasks", "from gateway_project.settings import DEBUG", "gateway_project.settings.DEBUG"),
        ("keys.spending", "from completions import pricing", "completions.pricing"),
        ("keys.pages", "from ..completions import admission", "completions.admission"),
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


def test_completions_import_each_other_in_order():
    inside = [(module, source) for module, source in house() if module.startswith("completions.")]
    written = [(module, source) for module, source in inside if ".migrations" not in module]
    assert {module: found for module, source in written if (found := disorderly(module, source))} == {}
    assert {module.split(".")[1] for module, _ in written} == set().union(*INNER_ORDER)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("completions.providers.openai", "from completions import relay"),
        ("completions.providers.openai", "from completions.models import Provider"),
        ("completions.pricing", "from completions.catalog import find"),
        ("completions.chat", "from completions import pricing"),
        ("completions.relay", "from completions import views"),
        ("completions.tasks", "from completions.views import ChatCompletionsView"),
        ("completions.door", "from completions.resolution import Resolution"),
        ("completions.spool", "from completions import attempts"),
    ],
)
def test_an_import_against_the_order_of_completions_is_found(module, source):
    assert disorderly(module, source) == [next(imports(module, source))]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("completions.urls", "from completions import views"),
        ("completions.views", "from completions import admission, catalog, relay, schema"),
        ("completions.settlement", "from completions.admission import Admitted\nfrom completions.models import Completion"),
        (
            "completions.providers.echo",
            "from completions.chat import Call\nfrom completions.providers.base import ProviderFailed",
        ),
        ("completions.tasks", "from completions import settlement"),
    ],
)
def test_an_import_in_the_order_of_completions_is_not(module, source):
    assert disorderly(module, source) == []


def test_modules_are_named_for_what_they_are():
    assert [module for module, _ in house() if NOT_NOUNS & set(module.split("."))] == []


@pytest.mark.parametrize(
    ("module", "source", "leaf"),
    [
        ("gateway_project.errors", '"""LEAF. Errors."""', True),
        ("gateway_project.settings", '"""Settings. LEAF."""', False),
        ("gateway_project.wsgi", "LEAF = 1", False),
        ("billing.money", '"""LEAF. Money."""', False),
    ],
)
def test_a_leaf_says_so_in_its_first_word(module, source, leaf):
    assert is_leaf(module, source) == leaf


def test_the_frame_has_leaves_and_wiring():
    frame = {module for module, _ in house() if module.startswith("gateway_project.")}
    assert {"gateway_project.errors", "gateway_project.http", "gateway_project.group_commit"} <= LEAVES < frame
    assert not LEAVES & {"gateway_project.settings", "gateway_project.urls", "gateway_project.supervisor"}
