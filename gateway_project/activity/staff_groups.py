"""Ready groups of staff, which migrations of the apps fill: each app knows its own permissions.

A deployment can change or delete the groups: a later migration adds new permissions to the groups that are still there, and
takes away only what showed a group customers whom it is refused elsewhere.
"""

from collections.abc import Collection, Mapping
from typing import Any

from django.contrib.auth.management import create_permissions

NAMES = ("Support", "Support lead", "Finance", "Catalogue", "Operator")


def make(apps: Any) -> None:
    """Make the groups that are missing. ``apps`` is the migration's."""
    for name in NAMES:
        apps.get_model("auth", "Group").objects.get_or_create(name=name)


def extend(apps: Any, app_label: str, codenames: Mapping[str, Collection[str]]) -> None:
    """Add permissions of one app to groups, by the groups' names. Groups that were deleted are not made again."""
    config = apps.get_app_config(app_label)
    module = getattr(config, "models_module", None)
    config.models_module = True  # Django skips apps of a migration, and creates permissions only after all migrations
    try:
        create_permissions(config, verbosity=0, apps=apps)
    finally:
        config.models_module = module
    permissions = apps.get_model("auth", "Permission").objects.filter(content_type__app_label=app_label)
    for name, wanted in codenames.items():
        group = apps.get_model("auth", "Group").objects.filter(name=name).first()
        if group is not None:
            group.permissions.add(*permissions.filter(codename__in=wanted))


def take(apps: Any, app_label: str, codenames: Mapping[str, Collection[str]]) -> None:
    permissions = apps.get_model("auth", "Permission").objects.filter(content_type__app_label=app_label)
    for name, unwanted in codenames.items():
        for group in apps.get_model("auth", "Group").objects.filter(name=name):
            group.permissions.remove(*permissions.filter(codename__in=unwanted))
