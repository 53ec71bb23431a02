"""Each entry has a hash over itself and all before it, which triggers compute; and the tables of signed roots."""

from django.db import migrations, models
from django.db.models.functions import Now

# The bytes are described in docs/api/proof.md, and made again in billing.proof.chain.
_HASH = """sha256(
        CASE WHEN NEW.seq = 1 THEN decode(repeat('00', 32), 'hex') ELSE %s END
        || sha256(convert_to(jsonb_build_array(NEW.account_id, NEW.seq, NEW.id, NEW.type, NEW.amount_nanos,
            NEW.balance_after_nanos, to_char(NEW.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            NEW.reference, NEW.spender, NEW.metadata)::text, 'UTF8')))"""
_CHECK_CHAIN = """
CREATE OR REPLACE FUNCTION billing_check_chain() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    last record;
BEGIN
    SELECT seq, balance_after_nanos, created_at{column} INTO last
        FROM billing_ledgerentry WHERE account_id = NEW.account_id ORDER BY seq DESC LIMIT 1;
    IF NEW.seq <> coalesce(last.seq, 0) + 1 THEN
        RAISE EXCEPTION 'seq %% does not follow %%', NEW.seq, coalesce(last.seq, 0) USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.balance_after_nanos <> coalesce(last.balance_after_nanos, 0) + NEW.amount_nanos THEN
        RAISE EXCEPTION 'balance %% is not %% plus %%', NEW.balance_after_nanos, coalesce(last.balance_after_nanos, 0),
            NEW.amount_nanos USING ERRCODE = 'check_violation';
    END IF;
    NEW.created_at := greatest(NEW.created_at, last.created_at);{hash}
    RETURN NEW;
END $$
"""
# An entry of before gets its hash once, when the one before it has its own. Nothing else of an entry ever changes.
_REFUSE_CHANGE = """
CREATE OR REPLACE FUNCTION billing_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN{permitted}
    RAISE EXCEPTION 'the book is append-only: %% on %% is refused', TG_OP, TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$
"""
_BEFORE = "(SELECT hash FROM billing_ledgerentry WHERE account_id = NEW.account_id AND seq = NEW.seq - 1)"
_PERMITTED = f"""
    IF TG_OP = 'UPDATE' AND starts_with(TG_TABLE_NAME, 'billing_ledgerentry') THEN
        IF OLD.hash IS NULL AND to_jsonb(NEW) - 'hash' = to_jsonb(OLD) - 'hash' THEN
            NEW.hash := {_HASH % _BEFORE};
            IF NEW.hash IS NOT NULL THEN
                RETURN NEW;
            END IF;
        END IF;
    END IF;"""  # noqa: S608  constants of this module
CHECK_CHAIN = _CHECK_CHAIN.format(column=", hash", hash=f"\n    NEW.hash := {_HASH % 'last.hash'};")
REFUSE_CHANGE = _REFUSE_CHANGE.format(permitted=_PERMITTED)
KEEP = (
    "CREATE TRIGGER {0}_are_never_changed BEFORE UPDATE OR DELETE ON {1} FOR EACH ROW EXECUTE FUNCTION billing_refuse_change()"
)
KEPT = {"roots": "billing_ledgerroot", "leaves": "billing_ledgerleaf", "heads": "billing_ledgerhead"}


class Migration(migrations.Migration):
    atomic = False  # each statement is short
    dependencies = [("billing", "0028_warnings_are_called_alerts")]

    operations = [
        migrations.AddField(
            "ledgerentry",
            "hash",
            models.BinaryField(
                help_text="SHA-256 over the entry and all before it, by a trigger: ``billing.proof``.", null=True
            ),
        ),
        migrations.RunSQL([(CHECK_CHAIN, [])], [(_CHECK_CHAIN.format(column="", hash=""), [])], hints={"is_owned": True}),
        migrations.RunSQL([(REFUSE_CHANGE, [])], [(_REFUSE_CHANGE.format(permitted=""), [])], hints={"is_owned": True}),
        migrations.CreateModel(
            name="RootKey",
            fields=[
                (
                    "id",
                    models.CharField(
                        help_text="The thumbprint of the public key (RFC 7638).",
                        max_length=43,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("public_key", models.BinaryField()),
                ("sealed_secret", models.TextField(help_text="The private key, encrypted with ENCRYPTION_KEYS.")),
                ("made_at", models.DateTimeField(db_default=Now())),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="LedgerRoot",
            fields=[
                (
                    "number",
                    models.BigIntegerField(help_text="1, 2, 3 ... without gaps.", primary_key=True, serialize=False),
                ),
                ("hour", models.DateTimeField(unique=True)),
                ("size", models.BigIntegerField(help_text="How many leaves the tree has: those with lower numbers.")),
                ("statement", models.TextField()),
                ("signature", models.BinaryField()),
                ("parts", models.BinaryField(help_text="The hashes of the parts of the tree, one after the other.")),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="LedgerLeaf",
            fields=[
                (
                    "number",
                    models.BigIntegerField(help_text="0, 1, 2 ... without gaps.", primary_key=True, serialize=False),
                ),
                ("account_id", models.UUIDField(unique=True)),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="LedgerHead",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey("leaf", "root", blank=True, editable=False, primary_key=True, serialize=False),
                ),
                ("leaf", models.BigIntegerField()),
                ("root", models.BigIntegerField()),
                ("seq", models.BigIntegerField()),
                ("hash", models.BinaryField()),
            ],
            options={"default_permissions": ()},
        ),
        *(
            migrations.RunSQL(
                KEEP.format(name, table),
                f"DROP TRIGGER {name}_are_never_changed ON {table}",
                hints={"is_owned": False},
            )
            for name, table in KEPT.items()
        ),
    ]
