"""The code says alert. Tables, columns, indexes and permissions keep their names, by which the former release knows them.

Do not run the former release's ``migrate`` after it: it would add content types and permissions
of the models' former names beside those that were renamed.
"""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0027_changes_of_models_are_told")]

    operations = [
        migrations.AlterModelTable("accountwarning", "billing_accountwarning"),
        migrations.AlterModelTable("warningdelivery", "billing_warningdelivery"),
        migrations.RenameModel("AccountWarning", "AccountAlert"),
        migrations.RenameModel("WarningDelivery", "AlertDelivery"),
        migrations.AlterModelOptions(
            "accountalert",
            options={
                "default_permissions": (),
                "permissions": [("view_accountwarning", "Can view account warning")],
            },
        ),
        migrations.AlterModelOptions(
            "alertdelivery",
            options={
                "default_permissions": (),
                "permissions": [("view_warningdelivery", "Can view warning delivery")],
            },
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    "accountalert",
                    "account",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="alerts",
                        to="billing.account",
                    ),
                ),
                migrations.AlterField(
                    "alertdelivery",
                    "warning",
                    models.ForeignKey(
                        db_column="warning_id",
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="billing.accountalert",
                    ),
                ),
            ]
        ),
        migrations.RenameField("alertdelivery", "warning", "alert"),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveConstraint("alertdelivery", "a_warning_goes_to_an_endpoint_once"),
                migrations.RemoveConstraint("alertdelivery", "a_warning_is_mailed_to_a_person_once"),
                migrations.AddConstraint(
                    "alertdelivery",
                    models.UniqueConstraint(fields=["alert", "endpoint"], name="a_warning_goes_to_an_endpoint_once"),
                ),
                migrations.AddConstraint(
                    "alertdelivery",
                    models.UniqueConstraint(
                        condition=models.Q(endpoint__isnull=True),
                        fields=["alert", "email"],
                        name="a_warning_is_mailed_to_a_person_once",
                    ),
                ),
            ]
        ),
    ]
