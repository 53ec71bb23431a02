"""New migrations do not block tables that have many rows. CONTRIBUTING.md has the rule."""

import pytest
from django.contrib.postgres.operations import AddConstraintNotValid, AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

KNOWN = {"billing": 8, "completions": 13, "keys": 3, "rankings": 1}  # the last numbers before the rule
BLOCKING = (migrations.AddIndex, migrations.RemoveIndex, migrations.AddConstraint)
NOT_BLOCKING = (AddIndexConcurrently, RemoveIndexConcurrently, AddConstraintNotValid)


def blocking_operations(migration: migrations.Migration) -> list[str]:
    """Return descriptions of the operations that would lock a table for as long as its rows take; a new table has none."""
    created = {operation.name_lower for operation in migration.operations if isinstance(operation, migrations.CreateModel)}
    return [
        operation.describe()
        for operation in migration.operations
        if _blocks(operation, atomic=migration.atomic) and str(getattr(operation, "model_name", "")).lower() not in created
    ]


def _blocks(operation: Operation, *, atomic: bool) -> bool:
    if isinstance(operation, migrations.RunPython):
        return atomic
    return isinstance(operation, BLOCKING) and not isinstance(operation, NOT_BLOCKING)


def test_no_new_migration_blocks_a_table_with_many_rows():
    loaded = MigrationLoader(None).disk_migrations
    assert {app for app, _ in loaded} >= set(KNOWN)
    new = {name: migration for name, migration in loaded.items() if int(name[1][:4]) > KNOWN.get(name[0], 9_999)}
    assert {name: found for name, migration in new.items() if (found := blocking_operations(migration))} == {}


INDEX = models.Index(fields=["name"], name="by_name")
CHECK = models.CheckConstraint(condition=models.Q(name=""), name="no_name")


@pytest.mark.parametrize(
    ("operations", "atomic", "count"),
    [
        ([migrations.AddIndex("row", INDEX)], True, 1),
        ([AddIndexConcurrently("row", INDEX)], False, 0),
        ([migrations.AddConstraint("row", CHECK)], True, 1),
        ([AddConstraintNotValid("row", CHECK)], True, 0),
        ([migrations.RunPython(migrations.RunPython.noop)], True, 1),
        ([migrations.RunPython(migrations.RunPython.noop)], False, 0),
        ([migrations.CreateModel("Row", []), migrations.AddIndex("row", INDEX)], True, 0),
    ],
)
def test_what_blocks_is_found(operations, atomic, count):
    example = type("Migration", (migrations.Migration,), {"operations": operations, "atomic": atomic})
    assert len(blocking_operations(example("0001_example", "example"))) == count
