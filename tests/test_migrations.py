"""New migrations do not block tables that have many rows. CONTRIBUTING.md has the rule."""

from collections.abc import Iterable, Iterator

import pytest
from django.contrib.postgres.operations import AddConstraintNotValid, AddIndexConcurrently, RemoveIndexConcurrently
from django.db import connection, migrations, models
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.recorder import MigrationRecorder

INITIAL = {"activity": 2, "billing": 3, "completions": 3, "keys": 2, "monitoring": 1, "rankings": 2}  # make the empty tables
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
            return getattr(field, "db_index", False) or field.unique or field.remote_field is not None
    return isinstance(operation, BLOCKING) and not isinstance(operation, NOT_BLOCKING)


def test_no_new_migration_blocks_a_table_with_many_rows():
    loaded = MigrationLoader(None).disk_migrations
    assert {app for app, _ in loaded} >= set(INITIAL)
    new = {name: migration for name, migration in loaded.items() if int(name[1][:4]) > INITIAL.get(name[0], 9_999)}
    assert {name: found for name, migration in new.items() if (found := blocking_operations(migration))} == {}


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
