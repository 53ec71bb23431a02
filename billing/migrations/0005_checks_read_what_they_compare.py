"""The triggers of the book read the columns that they compare; and of the entries that one transaction adds to a book, the last
is compared with the account.

Ids are compared as bytes, so that one index finds an id and what begins like it; and entries that staff issued, which are few,
have an index of their own.
"""

from django.conf import settings
from django.db import migrations, models
from django.db.models import Q

CHAIN = """
CREATE OR REPLACE FUNCTION billing_check_chain() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    last record;
BEGIN
    SELECT seq, balance_after_nanos, created_at INTO last
        FROM billing_ledgerentry WHERE account_id = NEW.account_id ORDER BY seq DESC LIMIT 1;
    IF NEW.seq <> coalesce(last.seq, 0) + 1 THEN
        RAISE EXCEPTION 'seq %% does not follow %%', NEW.seq, coalesce(last.seq, 0) USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.balance_after_nanos <> coalesce(last.balance_after_nanos, 0) + NEW.amount_nanos THEN
        RAISE EXCEPTION 'balance %% is not %% plus %%', NEW.balance_after_nanos, coalesce(last.balance_after_nanos, 0),
            NEW.amount_nanos USING ERRCODE = 'check_violation';
    END IF;
    NEW.created_at := greatest(NEW.created_at, last.created_at);
    RETURN NEW;
END $$;
"""

# An entry that others follow is not compared: its balance is in theirs by the chain, and the last of them is compared.
BALANCE = """
CREATE OR REPLACE FUNCTION billing_check_balance() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    this_id uuid;
    account record;
    last record;
BEGIN
    IF TG_TABLE_NAME = 'billing_account' THEN this_id := NEW.id; ELSE this_id := NEW.account_id; END IF;
    SELECT balance_nanos, last_seq INTO account FROM billing_account WHERE id = this_id;
    IF TG_TABLE_NAME = 'billing_ledgerentry' THEN
        IF NOT FOUND THEN
            RAISE EXCEPTION 'account %% is not there', this_id USING ERRCODE = 'check_violation';
        END IF;
        IF account.last_seq > NEW.seq THEN
            RETURN NULL;
        END IF;
        SELECT NEW.seq, NEW.balance_after_nanos INTO last;
    ELSE
        SELECT seq, balance_after_nanos INTO last
            FROM billing_ledgerentry WHERE account_id = this_id ORDER BY seq DESC LIMIT 1;
    END IF;
    IF account.balance_nanos <> coalesce(last.balance_after_nanos, 0) OR account.last_seq <> coalesce(last.seq, 0) THEN
        RAISE EXCEPTION 'account %% says balance %% and seq %%, its book %% and %%', this_id, account.balance_nanos,
            account.last_seq, coalesce(last.balance_after_nanos, 0), coalesce(last.seq, 0)
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
"""

# An account that takes the id of another one takes its book, too.
GUARD = """
DROP TRIGGER accounts_agree_with_their_book ON billing_account;
CREATE CONSTRAINT TRIGGER accounts_agree_with_their_book AFTER INSERT OR UPDATE OF id, balance_nanos, last_seq
    ON billing_account DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_check_balance();
"""


class Migration(migrations.Migration):
    dependencies = [("billing", "0004_accounts_have_defaults_for_their_keys")]

    operations = [
        # Who goes back keeps them: what they check is what was checked before.
        migrations.RunSQL([(CHAIN, []), (BALANCE, []), (GUARD, [])], reverse_sql=migrations.RunSQL.noop),
        migrations.AlterField(
            "hold", "reference", models.CharField(db_collation="C", max_length=64, primary_key=True, serialize=False)
        ),
        migrations.AlterField(
            "ledgerentry",
            "reference",
            models.CharField(
                db_collation="C", help_text="The business fact this entry books, once.", max_length=255, unique=True
            ),
        ),
        # Django leaves them behind, for LIKE, of which an index of bytes is capable itself.
        migrations.RunSQL(
            "DROP INDEX billing_hold_reference_efde3da1_like; DROP INDEX billing_ledgerentry_reference_23094ef0_like",
            reverse_sql="CREATE INDEX billing_hold_reference_efde3da1_like ON billing_hold (reference varchar_pattern_ops);"
            "CREATE INDEX billing_ledgerentry_reference_23094ef0_like ON billing_ledgerentry (reference varchar_pattern_ops)",
        ),
        migrations.AlterField(
            "ledgerentry",
            "issued_by",
            models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=models.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddIndex(
            "ledgerentry",
            models.Index(condition=Q(issued_by__isnull=False), fields=["issued_by"], name="entries_by_issuer"),
        ),
    ]
