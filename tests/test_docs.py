"""The documentation matches the code: its lists are complete, its links have targets, and its examples are real output."""

import ast
import csv
import io
import json
import logging
import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import Permission
from django.core.management import call_command, load_command_class
from django.core.management.base import BaseCommand
from django.db import connection

from billing.ledger import audit
from billing.views import LedgerPageFilterSet
from completions.catalog import file as catalog_file
from completions.catalog.tables import InvalidCatalog
from completions.inbound.chat_completions.serializers import ChatCompletionRequest
from completions.inbound.embeddings.serializers import EmbeddingRequest
from completions.inbound.messages.serializers import MessageRequest
from completions.inbound.responses.serializers import ModelResponseRequest
from completions.models import Completion, Price, Provider
from completions.pricing import meters
from completions.providers import finish_reasons, reported_usage, served_tiers
from completions.providers.access import endpoints, platforms
from completions.providers.base import RETRYABLE_STATUSES
from gateway_project import errors, logs
from gateway_project.urls import health
from keys import management_keys
from keys.key_api.request_fields import NewKeySerializer, RotationSerializer
from keys.key_api.views import PageFilterSet
from rankings.api.filters import RankingFilter
from rankings.models import SourceState
from rankings.scoring import parameters
from tests import chat, factories
from tests.conftest import client_for
from tests.declared_metrics import declared_metrics
from tests.environment import ROOT
from tests.outage import with_the_database_unavailable
from tests.rankings import entries

APPS = ["billing", "keys", "completions", "rankings"]
CODE = [ROOT / "manage.py", *(path for top in [*APPS, "gateway_project", "deploy"] for path in (ROOT / top).rglob("*.py"))]
SETTINGS = ROOT / "gateway_project" / "settings.py"
PARAMETERS = Path(parameters.__file__)
CATALOG, CHARGING, INVARIANTS, SECURITY = (
    (ROOT / "docs" / f"{name}.md").read_text() for name in ("catalog", "charging", "invariants", "security")
)
DECISIONS_MAX = 45  # pages: a new one takes the place of one that it replaces
COMMANDS, DEPLOYING, FAILURES, MONITORING, SETTINGS_PAGE, SUPPORT = (
    (ROOT / "docs" / "operating" / f"{name}.md").read_text()
    for name in ("commands", "deploying", "failures", "monitoring", "settings", "support")
)
API = "".join(path.read_text() for path in sorted((ROOT / "docs" / "api").glob("*.md")))


def tracked() -> Iterator[Path]:
    """Yield the files that are in the repository or not ignored by it."""
    ignored = [".git", *(line.strip("/") for line in (ROOT / ".gitignore").read_text().split())]
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if not any(fnmatch(name, pattern) for pattern in ignored))
        yield from (Path(folder, name) for name in sorted(files) if not any(fnmatch(name, pattern) for pattern in ignored))


@cache
def pages() -> dict[Path, str]:
    """Return the text of every page of documentation."""
    return {path: path.read_text() for path in tracked() if path.suffix == ".md"}


@cache
def defined_tests() -> set[str]:
    found = (re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE) for path in (ROOT / "tests").rglob("test_*.py"))
    return {name for names in found for name in names}


# --- Reading Markdown ---------------------------------------------------------------------------------------------


def section(page: str, heading: str) -> str:
    """Return the text under a heading, up to the next heading of the same or a higher level."""
    level = len(heading) - len(heading.lstrip("#"))
    [after] = re.split(rf"^{re.escape(heading)}$", page, flags=re.MULTILINE)[1:]
    return re.split(rf"^#{{1,{level}}} ", after, maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> list[list[str]]:
    """Return the rows of the tables in ``text``, without header rows."""
    found = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for table in found for line in table.splitlines()[2:]]


def names(cells: list[list[str]]) -> list[str]:
    """Return the cells of the first column that are code."""
    return [match[1] for row in cells if (match := re.fullmatch(r"`([^`]+)`", row[0]))]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def prose(page: str) -> str:
    """Return the page without its code."""
    without_blocks = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^    .*$|`[^`\n]*`", "", without_blocks, flags=re.MULTILINE)


# --- Settings -----------------------------------------------------------------------------------------------------

_READERS = {"get", "setdefault", "text", "boolean", "integer", "integers", "words", "numbers", "origins", "address", "networks"}
_READERS |= {"percent", "web_address"}
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{2,}")


def variables_read(source: str) -> Iterator[str]:
    """Yield the names of environment variables that ``source`` reads, from ``environment`` or a mapping named environ."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=reader), args=[ast.Constant(value=str(name)), *_]):
                if reader in _READERS and _is_environment(owner):
                    yield name
            case ast.Subscript(value=owner, slice=ast.Constant(value=str(name)), ctx=ast.Load()) if _is_environment(owner):
                yield name
            case ast.Compare(left=ast.Constant(value=str(name)), comparators=[owner]) if _is_environment(owner):
                yield name


def _is_environment(owner: ast.expr) -> bool:
    return ast.unparse(owner).rpartition(".")[2] in {"environ", "environment"}


def setting_rows() -> dict[str, list[str]]:
    table = rows(section(SETTINGS_PAGE, "## Environment variables"))
    return {row[0].strip("`"): row for row in table if row[0].startswith("`")}


def test_documented_variables_are_exactly_those_the_code_reads():
    read = {name for path in CODE for name in variables_read(path.read_text()) if _VARIABLE.fullmatch(name)}
    assert read >= {"DATABASE_URL", "GATEWAY_BIND", "CATALOG", "PROMETHEUS_MULTIPROC_DIR"}  # each read in another way
    assert set(setting_rows()) == read


def test_every_integer_setting_has_its_default_and_bounds_documented():
    documented = setting_rows()
    seen = 0
    for node in [*ast.walk(ast.parse(SETTINGS.read_text())), *ast.walk(ast.parse(PARAMETERS.read_text()))]:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "environment.integer":
            name, default = (eval(ast.unparse(argument), vars(parameters)) for argument in node.args)
            bounds = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords}
            assert documented[name][1] == f"{default} ({bounds['minimum']}-{bounds['maximum']})"
            seen += 1
    assert seen > 10


# --- Operating ----------------------------------------------------------------------------------------------------


def our_commands() -> dict[str, BaseCommand]:
    paths = [path for app in APPS for path in (ROOT / app).glob("management/commands/[a-z]*.py")]
    return {path.stem: load_command_class(path.relative_to(ROOT).parts[0], path.stem) for path in paths}


def test_every_command_is_documented_with_its_options():
    everybodys = {option for action in BaseCommand().create_parser("", "")._actions for option in action.option_strings}
    for name, command in our_commands().items():
        assert f"\n- `{name}" in COMMANDS, name
        described = re.split(r"\n- `|\n\n", COMMANDS.partition(f"\n- `{name}")[2])[0]
        options = {option for action in command.create_parser("", name)._actions for option in action.option_strings}
        missing = {option for option in options - everybodys - {"--json"} if option not in described}
        assert not missing, (name, missing)


def test_documented_system_checks_are_exactly_the_declared_ones():
    declared = {id for path in CODE for id in re.findall(r'id="(gateway\.[EW]\d{3})"', path.read_text())}
    documented = re.findall(r"^- \*\*(gateway\.\w+)\*\*: ", section(SETTINGS_PAGE, "## System checks"), re.MULTILINE)
    assert set(documented) == declared


def test_documented_metrics_and_labels_are_exactly_the_declared_ones():
    table = rows(section(MONITORING, "## Metrics"))
    assert {row[0].strip("`"): row[1] for row in table} == declared_metrics()


def test_documented_loggers_are_exactly_the_declared_ones():
    declared = {name for path in CODE for name in re.findall(r'getLogger\("(gateway\.[^"]+)"\)', path.read_text())}
    assert set(re.findall(r"^- `(gateway\.[^`]+)`: ", section(MONITORING, "## Logs"), re.MULTILINE)) == declared


def test_every_probe_is_documented():
    described = section(MONITORING, "## Probes") + section(MONITORING, "## Metrics")
    assert all(f"`/{route.pattern}`" in described for route in health.urlpatterns)


def test_documented_tasks_are_exactly_the_scheduled_ones():
    scheduled = {entry["task"] for entry in settings.PERIODIC_TASKS.values()}
    assert set(re.findall(r"`(\w+\.tasks\.\w+)`", section(DEPLOYING, "## Processes"))) == scheduled


@pytest.mark.django_db
def test_documented_permissions_of_support_exist_and_include_every_custom_one():
    text = section(SUPPORT, "## Permissions of support")
    documented = set(re.findall(r"`((?:billing|keys|completions)\.[a-z]+_[a-z_]+)`", text))
    existing = {f"{app}.{name}" for app, name in Permission.objects.values_list("content_type__app_label", "codename")}
    models = [model for app in APPS for model in apps.get_app_config(app).get_models()]
    # One to view is Django's own, kept under the name that its model had.
    named = [(model, name) for model in models for name, _ in model._meta.permissions if not name.startswith("view_")]
    ours = {f"{model._meta.app_label}.{name}" for model, name in named}
    assert ours
    assert ours <= documented <= existing


@pytest.mark.django_db
def test_a_log_line_matches_its_example(alice, echo_model, caplog):
    [example] = blocks(section(MONITORING, "## Logs"), "json")
    chat.ask(client_for(factories.make_key(alice)[1]))
    [record] = [record for record in caplog.records if record.name == "gateway.request"]
    logs.ContextFilter().filter(record)
    assert shape(json.loads(logs.JsonLineFormatter().format(record))) == shape(json.loads(example))


@pytest.mark.django_db
def test_no_logger_logs_query_strings():
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logs.JsonLineFormatter())
    handler.addFilter(logs.ContextFilter())
    logging.getLogger().addHandler(handler)
    try:
        reply = with_the_database_unavailable(lambda: client_for(None).get("/readyz?api_key=hunter2"))
    finally:
        logging.getLogger().removeHandler(handler)
    assert reply.status_code == 503
    assert "gateway.request" in written.getvalue()
    assert "/readyz" in written.getvalue()
    assert "hunter2" not in written.getvalue()


# --- Invariants ---------------------------------------------------------------------------------------------------


def invariants() -> list[tuple[str, dict[str, list[str]]]]:
    """Return each invariant's number, and the names under it by layer."""
    listed = INVARIANTS.partition("\n\nThree questions")[0]
    return [
        (number, {layer: code(names) for layer, names in re.findall(r"- (\w+): ((?:[^-]|-(?! ))*)", text)})
        for number, text in re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |\Z)", listed, re.MULTILINE | re.DOTALL)
    ]


def code(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


def cited(layer: str) -> set[str]:
    return {name for _, layers in invariants() for name in layers.get(layer, [])}


def test_every_constraint_and_trigger_of_an_invariant_exists(db):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint UNION SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled = 'O'"
            " UNION SELECT relname FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indisunique AND indisvalid"
        )
        existing = {name for (name,) in cursor.fetchall()}
    assert "entries_are_never_changed" in cited("Database")
    assert cited("Database") <= existing


def test_documented_audit_questions_are_exactly_those_of_the_audit():
    assert cited("Audit") == {invariant.name for invariant in audit.invariants()}


def test_every_test_of_an_invariant_exists():
    assert set(re.findall(r"`(test_\w+)`", INVARIANTS)) - defined_tests() == set()


def test_every_invariant_is_numbered_and_has_a_test():
    listed = invariants()
    assert [number for number, _ in listed] == [str(number) for number in range(1, 30)]
    tests = {number: layers.get("Tests", []) for number, layers in listed}
    assert [number for number, names in tests.items() if not names or not all(name.startswith("test_") for name in names)] == []


# --- Charging -----------------------------------------------------------------------------------------------------


def test_documented_settlements_are_exactly_the_charged_ones():
    table = rows(section(CHARGING, "## After: what is charged"))
    free = {Completion.Settlement.RELEASED, Completion.Settlement.EXPIRED}  # no entry says so
    assert {name for row in table for name in code(row[2])} == set(Completion.Settlement) - free
    assert [row for row in table if row[1].startswith("nothing") and row[2]] == []


def test_documented_meters_are_those_of_the_code():
    without = {meter.name: "" if meter.name in meters.REQUIRED else meter.without_rate for meter in meters.METERS}
    told = [[each.title, each.explanation, each.unit.words, without[each.name]] for each in meters.METERS]
    assert rows(CHARGING.partition("## Before")[0]) == told


def usage_rows() -> tuple[list[list[str]], list[list[str]]]:
    """Return the rows of the hosts, and those of the names of counts, as the page has them."""
    hosts: dict[reported_usage.Reading, list[str]] = {}
    for host, reading in reported_usage.HOSTS.items():
        hosts.setdefault(reading, []).append(f"`{host}`")
    known = [(", ".join(names), reading) for reading, names in hosts.items()]
    known += [("Gemini's API", reported_usage.GEMINI), ("Anthropic's Messages, at any host", reported_usage.MESSAGES)]
    known.append(("Any other", reported_usage.UNKNOWN))
    told = [[name, each.counts, each.cached.value, each.reasoning.value, each.source] for name, each in known]
    spellings: dict[str, list[str]] = {}
    for path, count in reported_usage.SPELLINGS.items():
        spellings.setdefault(count, []).append(f"`{path}`")
    return told, [[count, ", ".join(paths)] for count, paths in spellings.items()]


def tier_rows() -> list[list[str]]:
    """Return the rows of the words for service tiers, as the page has them."""
    told = []
    for place in (*served_tiers.PLACES, served_tiers.OF_MESSAGES):
        meanings: dict[str | None, list[str]] = {}
        for word, tier in place.words.items():
            meanings.setdefault(tier, []).append(f"`{word}`")
        named = [", ".join(meanings.get(tier, [])) for tier in ("", "flex", "priority", "us", None)]
        told.append([place.where, *named, place.source])
    return told


def test_what_providers_report_is_documented():
    expected = [*usage_rows(), tier_rows()]
    text = section(CHARGING, "## What a provider reports")
    found = [rows(f"{part}\n") for part in re.split("### Names of counts|### Words for service tiers", text)]
    written = "\n\n".join("\n".join(f"| {' | '.join(row)} |" for row in table) for table in expected)
    assert found == expected, f"the tables should be\n{written}"


# --- Examples of commands -----------------------------------------------------------------------------------------

_PROMPT = "$ model-gateway "


def shown_commands(page: str) -> list[tuple[list[str], str]]:
    """Return each command in the console blocks of the page, and its output."""
    text = "".join(block for block in blocks(page, "console") if block.startswith(_PROMPT))
    return [(shlex.split(command), output) for command, _, output in (part.partition("\n") for part in text.split(_PROMPT)[1:])]


@pytest.mark.django_db
@pytest.mark.parametrize(("page", "count"), [(COMMANDS + FAILURES, 6), (CATALOG, 4)], ids=["operating", "catalog"])
def test_commands_print_what_their_examples_show(page, count):
    commands = shown_commands(page)
    assert len(commands) == count
    known: dict[str, str] = {}  # an id on the page -> the id it got here
    for arguments, shown in commands:
        printed = run(*[known.get(argument, argument) for argument in arguments])
        if "--json" not in arguments:
            assert without_figures(printed) == without_figures(shown)
            continue
        facts, example = json.loads(printed), json.loads(shown)
        facts, example = ({**each, "later": []} if "later" in each else each for each in (facts, example))
        assert shape(facts) == shape(example)
        known |= {example[name]: facts[name] for name in ("key", "account") if name in example}


def run(*arguments: str) -> str:
    printed = io.StringIO()
    call_command(*arguments, stdout=printed, stderr=io.StringIO())
    return printed.getvalue()


def without_figures(text: str) -> str:
    """Replace numbers, dates and ids with placeholders, since they differ in each run, as do the prices that begin later."""
    text = re.sub(r"^\S+ from \d{4}-\d\d-\d\d .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"\d+", "0", re.sub(r"\b[0-9A-Za-z]{22}\b", "ID", text))


# --- The API ------------------------------------------------------------------------------------------------------


def shape(value: Any) -> Any:
    """Return names and types without values. Leaves nulls out, so that a null matches any value."""
    match value:
        case dict():
            return {name: shape(item) for name, item in value.items() if item is not None}
        case list():
            return [shape(item) for item in value[:1]]
    return type(value).__name__


def nulls(value: Any, path: str = "") -> set[str]:
    if isinstance(value, dict):
        return {found for name, item in value.items() for found in nulls(item, f"{path}.{name}")}
    return {path} if value is None else set()


def example(heading: str) -> Any:
    [block] = blocks(section(API, heading), "json")
    return json.loads(block)


def assert_as_shown(reply: Any, shown: Any) -> None:
    assert shape(reply.json()) == shape(shown)
    assert nulls(reply.json()) == nulls(shown)


@pytest.fixture
def carol(alice, echo_model) -> Any:
    """A client whose key has every kind of limit and one completion."""
    limit = {"limit_cents": 500, "type": "RECURRING", "period": "WEEKLY"}
    client = client_for(factories.make_key(alice, **limit, requests_per_minute=60, tokens_per_minute=100_000)[1])
    assert chat.ask(client).status_code == 200
    return client


def test_a_completion_matches_its_example(carol):
    assert_as_shown(chat.ask(carol), example("## POST /v1/chat/completions"))


def test_a_stream_and_its_error_match_their_examples(carol):
    stream, failure = (text_events(block) for block in blocks(section(API, "## Streaming"), "text"))
    sent = chat.events(chat.ask(carol, messages=hello(), stream=True, stream_options={"include_usage": True}))
    assert [choices_of(event) for event in sent] == [choices_of(event) for event in stream]
    assert [shape(event) for event in sent] == [shape(event) for event in stream]
    broken = chat.events(chat.ask(carol, messages=hello(), stream=True, echo={"break_after_tokens": 1}))
    assert shape(broken[-1]) == shape(failure[0])
    assert broken[-1]["error"] == failure[0]["error"]


def hello() -> list[dict[str, str]]:
    return [{"role": "user", "content": "Hello, gateway"}]


def text_events(block: str) -> list[Any]:
    data = [line.removeprefix("data: ") for line in block.splitlines() if line]
    return [item if item == "[DONE]" else json.loads(item) for item in data]


def choices_of(event: Any) -> Any:
    return event if event == "[DONE]" else (event["choices"], event.get("usage"))


READ = {
    "## GET /v1/models/{model_id}": "/v1/models/demo/echo",
    "## GET /v1/usage": "/v1/usage",
    "## GET /v1/key": "/v1/key",
    "## GET /api/billing/balance": "/api/billing/balance",
    "## GET /api/billing/ledger": "/api/billing/ledger?limit=1",
}


def test_a_reply_matches_its_example(carol, subtests):
    factories.change_prices(Price.objects, cached_input_nanos=250_000_000)  # as the built-in demo/echo, which the page shows
    for heading, path in READ.items():
        with subtests.test(heading):
            reply = carol.get(path)
            assert reply.status_code == 200
            assert_as_shown(reply, example(heading))


def test_a_quote_matches_its_example(carol):
    fields = {"model": "demo/echo", "messages": hello(), "max_tokens": 100}
    reply, shown = carol.post("/v1/quote", fields), example("## POST /v1/quote")
    assert_as_shown(reply, shown)
    assert {**reply.json(), "available": 0} == {**shown, "available": 0}


def test_what_happened_to_a_completion_matches_its_example(carol):
    [*_, done] = events = chat.events(chat.ask(carol, stream=True, user="customer-7", metadata={"team": "search"}))
    assert done == "[DONE]"
    assert_as_shown(carol.get(f"/v1/completions/{events[0]['id']}"), example("## GET /v1/completions/{completion_id}"))
    assert_as_shown(carol.get(f"/v1/generation?id={events[0]['id']}"), example("## GET /v1/generation"))


def test_the_ledger_csv_matches_its_example(carol):
    [block] = blocks(section(API, "## GET /api/billing/ledger.csv"), "text")
    served = b"".join(carol.get("/api/billing/ledger.csv").streaming_content).decode()
    shown, sent = (list(csv.DictReader(io.StringIO(text), strict=True)) for text in (block, served))
    assert list(shown[0]) == list(sent[0])
    assert [bool(cell) for cell in shown[0].values()] == [bool(cell) for cell in sent[0].values()]
    assert [bool(cell) for cell in shown[-1].values()] == [bool(cell) for cell in sent[-1].values()]


def test_the_objects_in_the_list_of_models_match_the_example_of_one(carol):
    listing = carol.get("/v1/models").json()
    assert set(listing) == {"object", "data", "total_count", "links"}
    assert shape(listing["data"][0]) | shape(example("## GET /v1/models/{model_id}")) == shape(
        example("## GET /v1/models/{model_id}")
    )


def test_an_error_matches_its_example(carol, alice):
    block, of_money = (json.loads(block) for block in blocks(section(API, "# Errors"), "json"))
    assert chat.ask(carol, temperature=3).json() == block
    limited = client_for(factories.make_key(alice, limit_cents=0, type="RECURRING", period="DAILY")[1])
    assert set(chat.ask(limited).json()["error"]) == set(of_money["error"])


def test_a_reply_has_the_rate_limit_headers_of_the_example(carol):
    sections = section(API, "## Limits per minute") + section(API, "## Requests at a time")
    shown = re.findall(r"^    (x-[\w-]+): ", sections, re.MULTILINE)
    assert shown == [name for name in chat.ask(carol).headers if name.startswith("x-ratelimit-")]


def test_documented_paths_are_exactly_those_of_the_openapi_document():
    document = client_for(None).get("/api/openapi.json").json()
    declared = {f"{method.upper()} {path}" for path, operations in document["paths"].items() for method in operations}
    assert set(re.findall(r"^## ((?:GET|POST|PUT|PATCH|DELETE) /\S+)$", API, re.MULTILINE)) == declared


@pytest.mark.parametrize(
    ("page", "heading", "serializer"),
    [
        ("completions", "## POST /v1/chat/completions", ChatCompletionRequest),
        ("messages", "### The request", MessageRequest),
        ("responses", "### The request", ModelResponseRequest),
        ("embeddings", "## POST /v1/embeddings", EmbeddingRequest),
    ],
    ids=["chat", "messages", "responses", "embeddings"],
)
def test_documented_request_fields_and_bounds_are_those_of_the_serializer(page, heading, serializer):
    shown = section((ROOT / "docs" / "api" / f"{page}.md").read_text(), heading).partition("####")[0]
    table, fields = {row[0].strip("`"): row for row in rows(shown)}, serializer().fields
    assert set(table) == set(fields)
    for name, field in fields.items():
        assert re.fullmatch("yes|no|with .+", table[name][2])
        assert (table[name][2] == "yes") == field.required
        for bound in ("min_value", "max_value", "max_length", "min_length"):
            value = getattr(field, bound, None)
            assert value is None or str(value) in table[name][3], (name, bound)


@pytest.mark.parametrize(
    ("heading", "parameters"),
    [
        ("## GET /api/billing/ledger", LedgerPageFilterSet),
        ("## GET /api/keys", PageFilterSet),
        ("## GET /api/rankings", RankingFilter),
    ],
    ids=["ledger", "keys", "rankings"],
)
def test_every_parameter_is_documented_with_its_bounds_and_no_other(heading, parameters):
    table = {row[0].strip("`"): row for row in rows(section(API, heading).partition("```")[0])}
    schemas = {name: each.schema for name, each in parameters.base_filters.items()}
    assert set(table) == set(schemas)
    for name, schema in schemas.items():
        assert table[name][2] == str(schema.get("default", "none"))
        bounds = [schema[bound] for bound in ("minimum", "maximum", "maxLength") if bound in schema]
        assert all(str(bound) in table[name][3] for bound in bounds)
        assert all(f"`{choice}`" in table[name][3] for choice in schema.get("enum", []))


@pytest.mark.parametrize(
    ("heading", "serializer"),
    [("## POST /api/keys", NewKeySerializer), ("## POST /api/keys/{key_id}/rotate", RotationSerializer)],
)
def test_documented_fields_of_keys_and_their_bounds_are_those_of_the_serializer(heading, serializer):
    table = {row[0].strip("`"): row for row in rows(section(API, heading).partition("```")[0])}
    assert set(table) == set(serializer().fields)
    for name, field in serializer().fields.items():
        assert table[name][2] == ("yes" if field.required else "no")
        for bound in ("min_value", "max_value", "max_length"):
            value = getattr(field, bound, None)
            assert value is None or str(value) in table[name][3] or "the same" in table[name][3], (name, bound)


def test_a_key_matches_its_example(alice, echo_model):
    limit = {"limit_cents": 500, "type": "RECURRING", "period": "MONTHLY"}
    key, minted = factories.make_key(alice, **limit, allowed_models=["demo/echo"], tags=["web"])
    assert chat.ask(client_for(minted)).status_code == 200
    _, management_secret = management_keys.issue(alice, name="terraform", created_by=alice.members.get())
    assert_as_shown(client_for(management_secret).get(f"/api/keys/{key.pk}"), example("## GET /api/keys/{key_id}"))


def test_a_ranking_matches_its_example(db):
    entries.list_model("anthropic/claude-opus-4-6", rank=1, quality=91.3, speed=55.1, cost=28.0, elo=1504)
    entries.publish()
    for source in ("INTERNAL", "LMSYS_ARENA", "HUGGINGFACE"):
        SourceState.objects.create(source=source, last_success_at=datetime.now(UTC))
    assert_as_shown(client_for(None).get("/api/rankings"), example("## GET /api/rankings"))


def error_classes() -> list[type[errors.ApiError]]:
    found = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, errors.ApiError)]
    return [error for error in found if error is not errors.ApiError]


def error_rows() -> dict[tuple[int, str, str], list[list[str]]]:
    table: dict[tuple[int, str, str], list[list[str]]] = {}
    for row in rows(section(API, "# Errors").partition("\n## ")[0]):
        status, code, type = (cell.strip("`") for cell in row[:3])
        table.setdefault((int(status), code, type), []).append(row)
    return table


def test_documented_errors_are_exactly_the_declared_ones():
    assert set(error_rows()) == {(error.status, error.code, error.type) for error in error_classes()}


def test_the_headers_of_an_error_are_documented():
    for error in error_classes():
        described = " ".join(row[4] for row in error_rows()[error.status, error.code, error.type])
        for name, value in error.fixed_headers.items():
            assert f"`{name}: {value}`" in described, error


# --- The catalog ------------------------------------------------------------------------------------------------


def known_fields(path: Path, text: str, table: str) -> set[str]:
    """Return the fields of a table of a catalog file, as the reader lists them when it finds an unknown one."""
    path.write_text(text)
    with pytest.raises(InvalidCatalog) as caught:
        catalog_file.read([path])
    [known] = [error.partition("known are ")[2] for error in caught.value.errors if f"{table}: is not known here" in error]
    return set(known.split(", "))


@pytest.mark.parametrize(
    ("heading", "text", "unknown"),
    [
        ("### `[catalog]`", "[catalog]\nzz = 1", "zz"),
        ("### `[providers.NAME]`", '[providers.x]\nkind = "openai"\nzz = 1', "zz"),
        ("### `auth`", '[providers.x]\nkind = "openai"\nauth = { type = "bearer", zz = 1 }', "auth.zz"),
        ('### `[models."ID"]`', '[models."x"]\nenabled = true\nprice = {}\nroutes = []\nzz = 1', "zz"),
        ("### `price`", '[models."x"]\nprice = { zz = 1 }', "price.zz"),
        ("### `rules`", '[models."x"]\nrules = { zz = 1 }', "rules.zz"),
        ("### `routes`", '[models."x"]\nroutes = [ { zz = 1 } ]', "routes[0].zz"),
    ],
)
def test_documented_fields_of_a_catalog_file_are_exactly_the_known_ones(tmp_path, heading, text, unknown):
    known = known_fields(tmp_path / "mine.toml", text, unknown)
    assert set(names(rows(section(CATALOG, heading)))) == known


def test_documented_fields_of_each_type_of_auth_are_those_it_may_state(tmp_path):
    path, documented = tmp_path / "mine.toml", rows(section(CATALOG, "### `auth`"))
    provider = '[providers.x]\nkind = "openai"\nbase_url = "http://127.0.0.1"\nauth = '

    def errors(auth: str) -> str:
        path.write_text(provider + auth)
        try:
            catalog_file.read([path])
        except InvalidCatalog as invalid:
            return str(invalid)
        return ""

    [known] = re.findall(r"is not one of (.*)$", errors('{ type = "zz" }'), re.MULTILINE)
    types = known.split(", ")
    assert re.findall(r"`(\w+)`", documented[0][2]) == types
    for field, of_types, _ in documented[2:]:
        name, strays = field.strip("`"), set(types) - set(re.findall(r"`(\w+)`", of_types))
        refused = {each for each in types if f"has no {name}" in errors(f'{{ type = "{each}", {name} = "a" }}')}
        assert refused == strays, name


def test_documented_paths_and_platforms_are_those_of_the_code():
    meanings = {row[0].strip("`"): row[2] for row in rows(section(CATALOG, "### `[providers.NAME]`"))}
    paths = {name.removesuffix("_stream") for name in endpoints.PATHS} | {"_stream"}
    assert set(re.findall(r"`(\w+)`", meanings["paths"])) == paths
    assert set(re.findall(r"`([\w-]+)`", meanings["platform"])) == set(platforms.PLATFORMS)


def test_documented_tables_of_a_catalog_file_are_exactly_the_known_ones(tmp_path):
    known = known_fields(tmp_path / "mine.toml", "zz = 1", "zz")
    assert set(re.findall(r"^### `\[(\w+)", CATALOG, re.MULTILINE)) == known


def test_the_example_of_a_catalog_file_is_valid(tmp_path):
    example, prices = blocks(CATALOG, "toml")
    path = tmp_path / "my-models.toml"
    path.write_text(example)
    catalog = catalog_file.read([path])
    assert list(catalog.models) == ["local/qwen3"]
    path.write_text(example.replace("price = {", "# price = {") + prices.replace("google/gemini-3.1-pro", "local/qwen3"))
    dated = catalog_file.read([path]).models["local/qwen3"].prices
    assert [price.sheet.values["output"] for price in dated] == ["12.00", "24.00"]


def test_a_price_that_is_not_a_string_gets_the_documented_error(tmp_path):
    example, [shown] = blocks(CATALOG, "toml")[0], blocks(CATALOG, "text")
    path = tmp_path / "my-models.toml"
    path.write_text(example.replace('input = "0.05"', "input = 0.05"))
    with pytest.raises(InvalidCatalog) as caught:
        catalog_file.read([path])
    assert shown == f"CommandError: {caught.value}\nNothing was written.\n"


def test_every_supported_kind_is_documented_and_no_other():
    said = re.search(r"\*\*Supported kinds:(.*?)\.\s", CATALOG, re.DOTALL)
    assert said
    assert set(re.findall(r"`(\w+)`", said[1])) == set(Provider.Kind.values)


# --- Security -----------------------------------------------------------------------------------------------------


def verdicts() -> dict[str, list[str]]:
    """Return the requirements of the security page by verdict, which stands before the evidence of what is not met."""
    found: dict[str, list[str]] = {}
    for requirements, verdict in re.findall(r"^- \*\*(\d[\d., ]+)\*\* .*?: (?:\*([\w ]+)\*)?", SECURITY, re.MULTILINE):
        found.setdefault(verdict or "met", []).extend(requirements.split(", "))
    return found


def test_each_requirement_of_level_2_is_judged_once():
    judged = [requirement for requirements in verdicts().values() for requirement in requirements]
    chapters = SECURITY.partition("## V1 ")[2]
    without = re.findall(r"\d+\.\d+\.\d+", " ".join(re.findall(r"^Not applicable: .*?\n\n", chapters + "\n\n", re.M | re.S)))
    assert len({*judged, *without}) == len(judged) + len(without) == 259
    said = "Of the 259 requirements {} are met, {} are the operator's, {} are met partly, {} are not met, and {} do not apply"
    counts = [len(verdicts()[verdict]) for verdict in ("met", "operator", "partly", "not met")]
    assert said.format(*counts, len(without)) in SECURITY.replace("\n", " ")


@pytest.mark.parametrize(
    ("verdict", "heading"),
    [("partly", "## What remains"), ("not met", "## What remains"), ("operator", "## What the operator does")],
)
def test_what_is_left_to_do_is_summed_up(verdict, heading):
    summary = section(SECURITY, heading)
    assert [requirement for requirement in verdicts()[verdict] if requirement not in summary] == []


def test_every_test_named_as_evidence_exists():
    assert set(re.findall(r"`(test_\w+)`", SECURITY)) - defined_tests() == set()


# --- Links and names ----------------------------------------------------------------------------------------------


@cache
def anchors(page: str) -> set[str]:
    """Return the anchors that GitHub derives from the headings of the page."""
    without_blocks = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", without_blocks, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def wrong_links(page: Path, text: str) -> list[str]:
    """Return the targets of links within the repository that do not exist."""
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        there = (page.parent / path).resolve() if path else page
        is_there = there.exists() and there.is_relative_to(ROOT)
        if not is_there or (anchor and anchor not in anchors(there.read_text())):
            wrong.append(target)
    return wrong


def test_every_link_has_an_existing_target():
    wrong = {str(page.relative_to(ROOT)): wrong_links(page, text) for page, text in pages().items()}
    assert {page: targets for page, targets in wrong.items() if targets} == {}


def test_every_named_file_exists():
    wrong: dict[str, list[str]] = {}
    for page, text in pages().items():
        named = re.findall(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|toml|md|txt))`", text)
        missing = [name for name in named if not (ROOT / name).exists() and not (page.parent / name).exists()]
        wrong |= {str(page.relative_to(ROOT)): missing} if missing else {}
    assert wrong == {}


def test_every_named_make_target_exists():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for text in pages().values() for name in re.findall(r"(?:^    |`)make ([\w-]+)", text, re.MULTILINE)}
    assert {"run", "test"} <= named <= targets


def test_every_image_is_small_and_shown():
    images = sorted((ROOT / "docs" / "images").glob("*.png"))
    links = [(page, target) for page, text in pages().items() for target in re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)]
    shown = {(page.parent / target).resolve() for page, target in links}
    assert images
    assert set(images) == shown
    assert all(image.stat().st_size < 200_000 for image in images)


def test_every_decision_is_listed_under_its_title():
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"^- (\d+): \[(.*)\]\((.*)\)(?:, replaces [\d, ]+)?$", (folder / "README.md").read_text(), re.MULTILINE)
    pages = sorted(folder.glob("0*.md"))
    titles = [(*page.read_text().splitlines()[0].removeprefix("# ").split(". ", 1), page.name) for page in pages]
    assert listed == titles
    assert [int(number) for number, *_ in listed] == [int(page.name[:4]) for page in pages]
    assert len(listed) <= DECISIONS_MAX


def test_every_number_of_a_decision_is_that_of_a_page_or_beside_its_heir():
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    numbers = {
        int(number)
        for row in re.findall(r"^- (\d+): \[.*\]\(.*\)(?:, replaces ([\d, ]+))?$", index, re.MULTILINE)
        for number in re.findall(r"\d+", " ".join(row))
    }
    assert numbers == set(range(1, max(numbers) + 1))


def test_a_decision_has_context_decision_and_consequence_and_perhaps_what_was_considered():
    decisions = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    parts = {page.stem: re.findall(r"^\*\*(\w+)\.\*\*", page.read_text(), re.MULTILINE) for page in decisions}
    without_considered = {page: [part for part in found if part != "Considered"] for page, found in parts.items()}
    assert {page: found for page, found in without_considered.items() if found != ["Context", "Decision", "Consequence"]} == {}


def test_every_dependency_has_a_comment_with_its_reason():
    text = (ROOT / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    dependencies = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    lines = text.splitlines()
    for dependency in dependencies:
        [line] = [line for line in lines if line.strip().startswith(f'"{dependency}"')]
        assert re.search(r"#\s.{5,}$", line), dependency


def test_no_file_names_a_path_of_a_machine():
    elsewhere = re.compile(r"\.\./" + r"shared\b|(?<![\w.~$}{])/(?:wo" + r"rk|ro" + r"ot|Users|home/\w+)/")
    found = []
    for path in tracked():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in elsewhere.finditer(text)]
    assert found == []


# --- Figures that the code knows ----------------------------------------------------------------------------------


def test_documented_figures_of_the_built_in_catalog_are_its_own():
    tables = tomllib.loads(catalog_file.BUILT_IN.read_text())
    models, providers = len(tables["models"]), len(tables["providers"])
    routes = sum(len(model["routes"]) for model in tables["models"].values())
    real = sum(not model_id.startswith("demo/") for model_id in tables["models"])
    assert f"has `demo/echo`, `demo/embed` and {real} real\nmodels" in CATALOG
    loading = section(CATALOG, "## Loading")
    assert f"{providers} providers and {models} models are in order." in loading
    prices = sum(len(price) if isinstance(price := model["price"], list) else 1 for model in tables["models"].values())
    created = f"{providers} providers created, {models} models created, {prices} prices created, {routes} routes created."
    assert created in loading
    shown = re.findall(r'"(\w+)": {"created": 0, "updated": 0, "deleted": 0, "unchanged": (\d+)}', loading)
    assert dict(shown) == {
        "providers": str(providers),
        "models": str(models),
        "prices": str(prices),
        "routes": str(routes),
        "costs": "0",
    }


def test_documented_finish_reasons_are_those_of_the_code():
    documented = rows(section((ROOT / "docs" / "providers" / "adapters.md").read_text(), "### Finish reasons"))
    assert [(reason.strip("`"), who, tuple(re.findall("`([^`]+)`", words))) for words, reason, who in documented] == list(
        finish_reasons.ROWS
    )


def test_the_documented_number_of_audit_questions_is_the_audits_own():
    assert f'"questions": {len(audit.invariants())}}}' in COMMANDS


def test_documented_statuses_after_which_a_provider_is_tried_again_are_those_of_the_code():
    [statuses] = re.findall(r"closed the connection, or replied with ([0-9, ]+) or 5xx", " ".join(API.split()))
    assert [int(status) for status in statuses.split(", ")] == list(RETRYABLE_STATUSES)
