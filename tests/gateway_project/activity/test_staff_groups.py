"""The migrations fill the ready groups of staff, whatever a deployment has done with them."""

import importlib

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission
from django.db.migrations.loader import MigrationLoader

from gateway_project.activity import staff_groups
from tests.gateway_project.activity.groups import MIGRATIONS, fill


@pytest.fixture
def groups(db):
    fill()  # a transactional test may have emptied the tables since the migrations


@pytest.mark.one_cell
def test_permissions_are_there_when_the_migrations_need_them(db):
    Group.objects.all().delete()
    Permission.objects.all().delete()
    loader = MigrationLoader(None)
    for app, name in MIGRATIONS:
        state = loader.project_state((app, name)).apps
        importlib.import_module(f"{app}.migrations.{name}").fill(state, None)
    expected = {"Support": 30, "Support lead": 44, "Finance": 35, "Catalogue": 44, "Operator": 62}
    assert {group.name: group.permissions.count() for group in Group.objects.all()} == expected


def test_a_group_of_a_deployment_is_extended_and_one_that_it_deleted_later_stays_deleted(groups):
    Group.objects.all().delete()
    own = Permission.objects.get(codename="add_logentry")
    Group.objects.create(name="Support").permissions.add(own)
    fill()
    support = Group.objects.get(name="Support")
    assert own in support.permissions.all()
    assert support.permissions.filter(codename="view_completion").exists()
    Group.objects.filter(name="Finance").delete()
    staff_groups.extend(apps, "keys", {"Finance": ["view_apikey"], "Support": ["view_apikey"]})
    assert not Group.objects.filter(name="Finance").exists()
