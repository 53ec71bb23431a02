"""Makes the ready groups of staff, with the permissions on accounts, money, people and the activity log."""

from typing import Any

from django.db import migrations

from gateway_project.activity import staff_groups

_SUPPORT = [
    *("view_account", "view_ledgerentry", "view_hold", "view_creditrequest", "issue_support_credit", "view_payment"),
    *("send_password_link", "view_invitation", "view_accountwarning"),
]
_PEOPLE = ["view_user", "change_user", "view_membership", "view_passwordlink"]
BILLING = {
    "Support": _SUPPORT,
    "Support lead": [*_SUPPORT, *_PEOPLE, "approve_support_credit", "change_account", "correct_credit", "close_account"],
    "Finance": [
        *(
            "view_account",
            "view_ledgerentry",
            "view_hold",
            "view_creditrequest",
            "approve_support_credit",
            "view_accountwarning",
        ),
        *("view_payment", "view_paymentevent", "view_paymentdifference", "view_billingdetails", "view_topuprule"),
        *("correct_credit", "book_purchase", "refund_purchase", "close_account"),
    ],
    "Operator": [
        *("view_account", "add_account", "view_hold", "view_signinlimit", "view_invitation", "view_accountwarning"),
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
    replaces = [
        ("billing", "0016_ready_groups"),
        ("billing", "0020_groups_see_payments"),
        ("billing", "0023_groups_act_on_accounts"),
        ("billing", "0026_groups_see_invitations"),
        ("billing", "0030_groups_see_warnings"),
    ]

    dependencies = [
        ("billing", "0002_triggers"),
        ("activity", "0002_triggers"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
