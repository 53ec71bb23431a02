"""The ready groups of staff."""

import importlib

from django.apps import apps

# Those that fill the groups, in their order.
MIGRATIONS = [
    ("billing", "0003_ready_groups"),
    ("keys", "0002_ready_groups"),
    ("completions", "0003_ready_groups"),
    ("rankings", "0002_ready_groups"),
    ("billing", "0005_validate_what_waits"),
    ("completions", "0011_groups_write_incidents"),
    ("billing", "0013_lost_second_factors"),
    ("completions", "0015_prices_by_two_and_margins"),
    ("rankings", "0004_staff_release_snapshots"),
    ("completions", "0018_catalogue_reads_no_customers"),
    ("billing", "0026_support_unblocks_sign_ins"),
    ("completions", "0030_staff_read_bills"),
]


def fill(state=apps):
    for app, name in MIGRATIONS:
        importlib.import_module(f"{app}.migrations.{name}").fill(state, None)
