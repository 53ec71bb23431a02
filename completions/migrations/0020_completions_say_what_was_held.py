"""Completions say what was held for them, and a mark says since when days of providers are added up: both for the audit."""

from django.db import migrations, models

# The first of them is not whole where usage was summed up before. Where there are none yet, the former release may sum up for
# some minutes more.
MARK = """
INSERT INTO billing_retentionmark (what, since)
SELECT 'provider days', coalesce(
    (SELECT min(day) + 1 FROM completions_providerday), (statement_timestamp() AT TIME ZONE 'UTC')::date + 2)
WHERE EXISTS (SELECT FROM completions_usagemark WHERE last_seq > 0)
ON CONFLICT DO NOTHING
"""


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0011_signed_and_archived_days"),
        ("completions", "0019_price_requests_say_what_was_seen"),
    ]

    operations = [
        migrations.AddField(
            "completion",
            "held_nanos",
            models.BigIntegerField(null=True, help_text="What was held for it. Empty: it was admitted before this was noted."),
        ),
        migrations.RunSQL(MARK, migrations.RunSQL.noop, hints={"is_owned": True}),
    ]
