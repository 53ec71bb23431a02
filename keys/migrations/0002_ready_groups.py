"""Adds the permissions on keys to the ready groups of staff."""

from typing import Any

from django.db import migrations

from gateway_project.activity import staff_groups

_SEEN = [
    *("view_apikey", "view_spendingday", "view_refusalcount", "view_refusedrequest", "view_managementkey", "view_formersecret"),
]
_SUPPORT = [*_SEEN, "set_spending_limit", "set_rates", "revoke_apikey"]
KEYS = {"Support": _SUPPORT, "Support lead": _SUPPORT, "Operator": [*_SEEN, "revoke_apikey"]}


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.extend(apps, "keys", KEYS)


class Migration(migrations.Migration):
    replaces = [
        ("keys", "0002_rates_may_be_the_accounts"),
        ("keys", "0003_keys_count_their_open_holds"),
        ("keys", "0004_staff_may_set_rates"),
        ("keys", "0005_validate_the_counts_of_open_holds"),
        ("keys", "0006_tokens_owed_are_counted_apart"),
        ("keys", "0007_what_keys_were_refused"),
        ("keys", "0008_keys_are_found_by_their_last_four"),
        ("keys", "0009_ready_groups"),
        ("keys", "0010_limits_may_be_raised_for_a_time"),
        ("keys", "0011_validate_raises_of_limits"),
        ("keys", "0012_keys_pause_rotate_and_have_tags"),
        ("keys", "0013_management_keys"),
        ("keys", "0014_groups_see_management_keys"),
    ]

    dependencies = [
        ("keys", "0001_initial"),
        ("billing", "0003_ready_groups"),
    ]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
