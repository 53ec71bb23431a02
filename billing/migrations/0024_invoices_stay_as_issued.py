"""Files of invoices and credit notes are kept as they were issued. The database refuses to change or delete one."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import gateway_project.identifiers

GUARD = """
CREATE TRIGGER invoices_stay_as_issued BEFORE UPDATE OR DELETE ON billing_invoicefile
    FOR EACH ROW EXECUTE FUNCTION billing_refuse_change()
"""


class Migration(migrations.Migration):
    atomic = False  # each statement is short
    dependencies = [
        ("billing", "0023_closings_that_staff_keep"),
    ]

    operations = [
        migrations.CreateModel(
            name="InvoiceFile",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=gateway_project.identifiers.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.CharField(max_length=30)),
                ("content", models.BinaryField(help_text="The PDF.")),
                ("issued_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                (
                    "account",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="invoice_files",
                        to="billing.account",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("account", "number"), name="an_invoice_is_issued_once"),
                ],
            },
        ),
        migrations.RunSQL(
            [(GUARD, [])],
            reverse_sql=[("DROP TRIGGER invoices_stay_as_issued ON billing_invoicefile", [])],
            hints={"is_owned": True},
        ),
    ]
