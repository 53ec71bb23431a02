"""The open holds of each account are counted, once: its row says their number from here on."""

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations

# The partial index of open holds makes this short, however many holds are resolved.
COUNT = """
UPDATE billing_account SET open_holds = counted.holds
FROM (SELECT account_id, count(*) AS holds FROM billing_hold WHERE state = 'HELD' GROUP BY account_id) AS counted
WHERE id = counted.account_id
"""


class Migration(migrations.Migration):
    atomic = False  # so that the rows are locked for as long as the count takes, and no longer
    dependencies = [("billing", "0008_accounts_count_their_stored_replies")]

    operations = [
        migrations.RunSQL(COUNT, migrations.RunSQL.noop),
        ValidateConstraint(model_name="account", name="an_account_may_run_at_least_one_request"),
        ValidateConstraint(model_name="account", name="an_accounts_open_holds_are_never_negative"),
    ]
