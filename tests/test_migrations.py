"""New migrations block no table that has many rows, and the former release works after them. CONTRIBUTING.md has the rules."""

import re
from collections.abc import Iterable, Iterator

import psycopg
import pytest
from django.contrib.postgres.operations import (
    AddConstraintNotValid,
    AddIndexConcurrently,
    RemoveIndexConcurrently,
    ValidateConstraint,
)
from django.db import connection, migrations, models
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ProjectState

INITIAL = {"activity": 2, "billing": 3, "completions": 3, "keys": 2, "monitoring": 1, "rankings": 2}  # make the empty tables
# The last migrations of release 0.2.0, whose code works beside that of the next. The commit that makes a release moves them.
RELEASED = {"activity": 2, "billing": 9, "completions": 7, "keys": 2, "monitoring": 1, "rankings": 2}
# The last that were made before a schema could be distributed by Citus. Their tables are distributed afterwards.
BEFORE_CITUS = {"activity": 3, "billing": 15, "completions": 15, "keys": 2, "monitoring": 1, "rankings": 2}
# The last that were made before there were cells, which are never applied to one.
BEFORE_CELLS = {"activity": 3, "billing": 17, "cells": 1, "completions": 15, "keys": 2, "monitoring": 1, "rankings": 2}
BLOCKING = (migrations.AddIndex, migrations.RemoveIndex, migrations.AddConstraint)
NOT_BLOCKING = (AddIndexConcurrently, RemoveIndexConcurrently, AddConstraintNotValid)


def blocking_operations(migration: migrations.Migration) -> list[str]:
    """Return descriptions of the operations that would lock a table for as long as its rows take; a new table has none."""
    operations = list(_flat(migration.operations))
    created = {operation.name_lower for operation in operations if isinstance(operation, migrations.CreateModel)}
    return [
        operation.describe()
        for operation in operations
        if _blocks(operation, atomic=migration.atomic) and str(getattr(operation, "model_name", "")).lower() not in created
    ]


def _flat(operations: Iterable[Operation]) -> Iterator[Operation]:
    for operation in operations:
        if isinstance(operation, migrations.SeparateDatabaseAndState):
            yield from _flat(operation.database_operations)
        else:
            yield operation


def _blocks(operation: Operation, *, atomic: bool) -> bool:
    match operation:
        case migrations.RunPython():
            return atomic
        case migrations.RunSQL():
            return atomic and any(word in str(operation.sql).upper().split() for word in ("UPDATE", "DELETE"))
        case migrations.AddField() | migrations.AlterField():
            field = operation.field
            refers = field.remote_field is not None and getattr(field, "db_constraint", True)
            return getattr(field, "db_index", False) or field.unique or refers
    return isinstance(operation, BLOCKING) and not isinstance(operation, NOT_BLOCKING)


def test_no_new_migration_blocks_a_table_with_many_rows():
    loaded = MigrationLoader(None).disk_migrations
    assert {app for app, _ in loaded} >= set(INITIAL)
    new = {name: migration for name, migration in loaded.items() if int(name[1][:4]) > INITIAL.get(name[0], 9_999)}
    assert {name: found for name, migration in new.items() if (found := blocking_operations(migration))} == {}


def test_what_a_new_migration_runs_by_itself_says_whether_it_is_about_each_cell():
    loaded = MigrationLoader(None).disk_migrations
    new = {name: migration for name, migration in loaded.items() if int(name[1][:4]) > BEFORE_CELLS.get(name[0], 9_999)}
    for name, migration in new.items():
        for operation in _flat(migration.operations):
            if isinstance(operation, migrations.RunSQL | migrations.RunPython):
                assert "is_owned" in operation.hints, name


def commands(migration: migrations.Migration) -> Iterator[str]:
    """Yield the commands of the migration's own SQL."""
    for operation in _flat(migration.operations):
        if isinstance(operation, migrations.RunSQL):
            for sql in (operation.sql, operation.reverse_sql):
                yield from [sql] if isinstance(sql, str) else [each if isinstance(each, str) else each[0] for each in sql or ()]


def has_several_statements(sql: str) -> bool:
    """Let the server parse it: a prepared statement has one."""
    connection.ensure_connection()
    with psycopg.connect(**connection.get_connection_params()) as own:
        parsed = own.pgconn.prepare(b"", sql.replace("%%", "%").encode())
        return b"multiple commands" in parsed.error_message


def test_a_command_of_a_new_migration_has_one_statement_as_citus_needs(db):
    loaded = MigrationLoader(None).disk_migrations
    new = {name: migration for name, migration in loaded.items() if int(name[1][:4]) > BEFORE_CITUS.get(name[0], 9_999)}
    assert {name: sql for name, migration in new.items() for sql in commands(migration) if has_several_statements(sql)} == {}
    assert has_several_statements("SELECT 1; SELECT 2")


def test_no_trigger_compares_the_whole_name_of_a_table_which_on_citus_has_the_number_of_a_shard(db):
    with connection.cursor() as cursor:
        cursor.execute("SELECT proname FROM pg_proc WHERE prosrc ~* 'tg_(table|rel)name *(=|<>|!=|in|is)'")
        assert cursor.fetchall() == []


def test_a_database_that_was_made_by_the_former_migrations_is_up_to_date(db):
    recorder = MigrationRecorder(connection)
    for (app, name), migration in MigrationLoader(None).disk_migrations.items():
        if app in INITIAL and migration.replaces:
            recorder.record_unapplied(app, name)
            for former in migration.replaces:
                recorder.record_applied(*former)
    executor = MigrationExecutor(connection)
    assert executor.migration_plan(executor.loader.graph.leaf_nodes()) == []


INDEX = models.Index(fields=["name"], name="by_name")
CHECK = models.CheckConstraint(condition=models.Q(name=""), name="no_name")


CHANGE_ROWS = migrations.RunSQL("UPDATE row SET name = ''")


@pytest.mark.parametrize(
    ("operations", "atomic", "count"),
    [
        ([migrations.AddIndex("row", INDEX)], True, 1),
        ([AddIndexConcurrently("row", INDEX)], False, 0),
        ([migrations.AddConstraint("row", CHECK)], True, 1),
        ([AddConstraintNotValid("row", CHECK)], True, 0),
        ([migrations.RunPython(migrations.RunPython.noop)], True, 1),
        ([migrations.RunPython(migrations.RunPython.noop)], False, 0),
        ([CHANGE_ROWS], True, 1),
        ([CHANGE_ROWS], False, 0),
        ([migrations.AddField("row", "size", models.IntegerField(null=True))], True, 0),
        ([migrations.AddField("row", "size", models.IntegerField(null=True, db_index=True))], True, 1),
        ([migrations.AlterField("row", "size", models.IntegerField(unique=True))], True, 1),
        ([migrations.AddField("row", "parent", models.ForeignKey("row", models.PROTECT, db_index=False))], True, 1),
        ([migrations.SeparateDatabaseAndState(database_operations=[migrations.AddIndex("row", INDEX)])], True, 1),
        ([migrations.CreateModel("Row", []), migrations.AddIndex("row", INDEX)], True, 0),
    ],
)
def test_what_blocks_is_found(operations, atomic, count):
    example = type("Migration", (migrations.Migration,), {"operations": operations, "atomic": atomic})
    assert len(blocking_operations(example("0001_example", "example"))) == count


# --- What the former release could not work with, and what rewrites or reads a whole table --------------------------

_KINDS = re.compile(r'ADD COLUMN|SET NOT NULL|DROP COLUMN|DROP TABLE|RENAME|(?<=" )TYPE')
_TARGET = re.compile(r'(?:ALTER|DROP) TABLE "?(\w+)"?(?: (?:ADD|ALTER|DROP) COLUMN "?(\w+)"?)?')


def breaking_statements(sql: list[str], released: set[tuple[str, str]]) -> list[str]:
    """Return the statements after which processes of a release with these columns fail, or that take long under a lock."""
    return [statement for place, statement in enumerate(sql) if _breaks(statement, sql[:place], sql[place:], released)]


def _breaks(statement: str, before: list[str], after: list[str], released: set[tuple[str, str]]) -> bool:
    (kind, *_), (table, column) = _KINDS.findall(statement) or [""], _target(statement)
    match kind:
        case "TYPE" | "RENAME":
            return True
        case "ADD COLUMN":
            loses_default = any(_target(each) == (table, column) and "DROP DEFAULT" in each for each in after)
            return "NOT NULL" in statement and (" DEFAULT " not in statement or loses_default)
        case "SET NOT NULL":
            return not any(f'"{table}" VALIDATE CONSTRAINT' in each for each in before)
        case "DROP COLUMN":
            return (table, column) in released
        case "DROP TABLE":
            return table in {name for name, _ in released}
    return False


def _target(statement: str) -> tuple[str, str]:
    found = _TARGET.search(statement)
    return (found[1], found[2] or "") if found else ("", "")


def statements(migration: migrations.Migration, state: ProjectState) -> list[str]:
    with connection.schema_editor(collect_sql=True, atomic=migration.atomic) as editor:
        migration.apply(state, editor, collect_sql=True)
    return [statement for statement in editor.collected_sql if not statement.startswith("--")]


def test_the_former_release_works_after_every_new_migration(transactional_db):
    graph = MigrationLoader(None).graph
    last = [name for name in graph.nodes if int(name[1][:4]) == RELEASED.get(name[0])]
    assert {app for app, _ in last} == set(RELEASED) == set(INITIAL)
    state = graph.make_state(nodes=last)
    models_then = state.apps.get_models(include_auto_created=True)
    released = {(model._meta.db_table, field.column) for model in models_then for field in model._meta.local_concrete_fields}
    assert ("billing_account", "id") in released
    plan = dict.fromkeys(name for leaf in graph.leaf_nodes() for name in graph.forwards_plan(leaf))
    new = [name for name in plan if int(name[1][:4]) > RELEASED.get(name[0], 9_999)]
    found = {name: breaking_statements(statements(graph.nodes[name], state), released) for name in new}
    assert {name: breaking for name, breaking in found.items() if breaking} == {}


VALIDATED = models.CheckConstraint(condition=models.Q(role__isnull=False), name="roles_are_there")
REQUIRED = models.CharField(max_length=10)
NULLABLE = models.CharField(max_length=10, null=True)


@pytest.mark.parametrize(
    ("operations", "count"),
    [
        ([migrations.AddField("process", "size", models.IntegerField(null=True))], 0),
        ([migrations.AddField("process", "size", models.IntegerField(db_default=0))], 0),
        ([migrations.AddField("process", "size", models.IntegerField(default=0))], 1),
        ([migrations.RunSQL('ALTER TABLE "monitoring_process" ADD COLUMN "size" integer NOT NULL')], 1),
        ([migrations.AlterField("process", "pid", models.BigIntegerField())], 1),
        ([migrations.AlterField("process", "pid", models.IntegerField(help_text="Another text."))], 0),
        ([migrations.RemoveField("process", "pid")], 1),
        ([migrations.RunSQL('ALTER TABLE "monitoring_process" DROP COLUMN "unused_since_the_last_release"')], 0),
        ([migrations.RenameField("process", "pid", "process_id")], 1),
        ([migrations.RenameModel("Process", "Program")], 1),
        ([migrations.DeleteModel("Process")], 1),
        ([migrations.AlterField("process", "role", NULLABLE)], 0),
        ([migrations.AlterField("process", "role", NULLABLE), migrations.AlterField("process", "role", REQUIRED)], 1),
        (
            [
                migrations.AlterField("process", "role", NULLABLE),
                AddConstraintNotValid("process", VALIDATED),
                ValidateConstraint("process", VALIDATED.name),
                migrations.AlterField("process", "role", REQUIRED),
            ],
            0,
        ),
    ],
)
def test_what_the_former_release_could_not_work_with_is_found(db, operations, count):
    state = MigrationLoader(None).project_state(("monitoring", "0001_initial"))
    example = type("Migration", (migrations.Migration,), {"operations": operations, "atomic": False})(
        "0002_probe", "monitoring"
    )
    found = breaking_statements(statements(example, state), {("monitoring_process", "pid"), ("monitoring_process", "role")})
    assert len(found) == count, found
