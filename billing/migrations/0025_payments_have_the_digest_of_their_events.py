"""A payment has a digest of its events, which a trigger writes: an event that is altered or gone contradicts it."""

from django.db import connection, migrations, models, transaction

BATCH = 100

DIGEST = """(
    SELECT encode(sha256(convert_to(string_agg(
        ROW(event_id, processor, type, outcome, note, extract(epoch FROM received_at))::text,
        ',' ORDER BY event_id, processor COLLATE "C"
    ), 'UTF8')), 'hex')
    FROM billing_paymentevent WHERE payment_id = billing_payment.id
)"""
SUM_UP = f"""
CREATE FUNCTION billing_sum_up_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE billing_payment SET events_digest = {DIGEST} WHERE id = NEW.payment_id;
    RETURN NULL;
END $$
"""  # noqa: S608  a constant of this module
TRIGGER = """
CREATE TRIGGER payment_events_are_summed_up AFTER INSERT ON billing_paymentevent FOR EACH ROW
    WHEN (NEW.payment_id IS NOT NULL) EXECUTE FUNCTION billing_sum_up_events()
"""


def fill(apps, schema_editor):
    """Sum up the events of before. Events are added under the lock of their payment, after which they are read."""
    ids = list(apps.get_model("billing", "Payment").objects.order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(ids), BATCH):
        some = [ids[start : start + BATCH]]
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM billing_payment WHERE id = ANY (%s) ORDER BY id FOR NO KEY UPDATE", some)
            cursor.execute(f"UPDATE billing_payment SET events_digest = {DIGEST} WHERE id = ANY (%s)", some)  # noqa: S608  the same


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0024_invoices_stay_as_issued")]

    operations = [
        migrations.AddField(
            "payment",
            "events_digest",
            models.CharField(max_length=64, null=True, editable=False, help_text="SHA-256 over its events, by a trigger."),
        ),
        migrations.RunSQL([(SUM_UP, None)], "DROP FUNCTION billing_sum_up_events()", hints={"is_owned": True}),
        migrations.RunSQL(
            TRIGGER, "DROP TRIGGER payment_events_are_summed_up ON billing_paymentevent", hints={"is_owned": True}
        ),
        migrations.RunPython(fill, migrations.RunPython.noop, hints={"is_owned": True}),
    ]
