"""Makes the ready groups of staff, with the permissions on accounts, money, people and the activity log."""

from typing import Any

from django.db import migrations

from gateway_project.activity import staff_groups

_SUPPORT = ["view_account", "view_ledgerentry", "view_hold", "view_creditrequest", "issue_support_credit"]
_PEOPLE = ["view_user", "change_user", "view_membership", "view_passwordlink"]
BILLING = {
    "Support": _SUPPORT,
    "Support lead": [*_SUPPORT, *_PEOPLE, "approve_support_credit", "change_account"],
    "Finance": ["view_account", "view_ledgerentry", "view_hold", "view_creditrequest", "approve_support_credit"],
    "Operator": [
        *("view_account", "add_account", "view_hold", "view_signinlimit"),
        *(*_PEOPLE, "add_user", "add_membership", "change_membership", "delete_membership"),
    ],
}
ACTIVITY = {
    "Support": ["view_activity"],
    "Support lead": ["view_activity"],
    "Finance": ["view_activity", "export_activity"],
    "Catalogue": ["view_activity"],
    "Operator": ["view_activity", "export_activity"],
}


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.make(apps)
    staff_groups.extend(apps, "billing", BILLING)
    staff_groups.extend(apps, "activity", ACTIVITY)
    staff_groups.extend(apps, "auth", {"Operator": ["view_group"]})


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("billing", "0015_search_finds_accounts_and_payments"),
        ("activity", "0003_take_over_the_admins_history"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
