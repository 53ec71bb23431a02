"""An empty database gets all its tables at once, and they are those that the migrations make."""

from concurrent.futures import ThreadPoolExecutor
from io import StringIO

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from gateway_project.activity import staff_groups
from gateway_project.db import schema_snapshot
from gateway_project.local import schema_dump
from tests import template_database
from tests.live.conftest import database_url

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_cell]


@pytest.fixture
def empty():
    """Connect Django to an empty database, which is dropped after the test."""
    own = connection.settings_dict["NAME"]
    name = f"{own}_empty"
    with connection._nodb_cursor() as cursor:
        cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')  # of a run that was killed
        cursor.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    template_database.use(name)
    yield
    template_database.use(own)
    with connection._nodb_cursor() as cursor:
        cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def execute(sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)


def migrate(**options):
    printed = StringIO()
    call_command("migrate", stdout=printed, **options)
    return printed.getvalue()


def test_the_file_is_what_the_migrations_make_or_make_schema_is_missing(empty):
    assert "Applying billing.0001_initial... OK" in migrate(from_migrations=True)
    assert schema_dump.dump(database_url()) == schema_snapshot.FILE.read_text()


def test_an_empty_database_gets_all_tables_and_rows_at_once(empty):
    assert "Created all tables" in (printed := migrate())
    assert "Applying" not in printed
    executor = MigrationExecutor(connection)
    assert executor.migration_plan(executor.loader.graph.leaf_nodes()) == []
    assert set(Group.objects.values_list("name", flat=True)) == set(staff_groups.NAMES)


def test_a_migrated_database_is_left_alone(empty):
    migrate()
    assert "No migrations to apply" in (again := migrate())
    assert "Created all tables" not in again


@pytest.mark.parametrize(
    "sql",
    ["CREATE TABLE public.mine ()", "CREATE SCHEMA AUTHORIZATION CURRENT_USER", "CREATE SCHEMA other; SET search_path = other"],
)
def test_a_database_with_tables_or_with_another_schema_is_migrated_step_by_step(empty, sql):
    execute(sql)
    assert not schema_snapshot.load(connection)
    assert "billing_account" not in connection.introspection.table_names()


def test_a_part_of_the_migrations_is_run_step_by_step(empty):
    assert "Applying contenttypes.0001_initial... OK" in migrate(app_label="contenttypes")
    assert "billing_account" not in connection.introspection.table_names()


def test_of_two_hosts_one_makes_the_tables(empty):
    def load(_) -> bool:
        try:
            return schema_snapshot.load(connection)
        finally:
            connection.close()

    with ThreadPoolExecutor() as threads:
        assert sorted(threads.map(load, range(2))) == [False, True]
