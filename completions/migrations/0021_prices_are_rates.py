"""A price is JSON of its rates, and completions count what has no column.

The columns of the former release stay until the next one. A trigger fills them from the rates, and the rates from them where a
process of that release writes a price, so that both releases run at the same time, and one can go back.
"""

from django.db import migrations, models

_PLACES = [
    *((name, "") for name in ("input", "output", "cached_input", "cache_write", "cache_write_1h", "image", "web_search")),
    *((name, tier) for tier in ("flex", "priority") for name in ("input", "output", "cached_input")),
]
_COLUMNS = [(name, tier, f"{f'{tier}_' if tier else ''}{name}_nanos") for name, tier in _PLACES]
_TABLES = ("price", "pricerequest", "providerprice")


def _rates_of(row: str) -> str:
    """Return SQL for the rates that the columns of a row say. It calls nothing and reads no table: Citus runs it on nodes."""
    stated = ", ".join(
        f"jsonb_build_object('meter', '{name}', 'tier', '{tier}', 'above', 0, 'nanos', {row}.{column})"
        for name, tier, column in _COLUMNS
    )
    return f"jsonb_path_query_array(jsonb_build_array({stated}), '$[*] ? (@.nanos != null)')"


def _nanos_of(name: str, tier: str) -> str:
    where = f'@.meter == "{name}" && @.tier == "{tier}" && @.above == 0'
    return f"jsonb_path_query_first(NEW.rates, '$[*] ? ({where}).nanos')::bigint"


_ASSIGNED = "\n".join(f"        NEW.{column} := {_nanos_of(name, tier)};" for name, tier, column in _COLUMNS)
KEEP_RATES = f"""
CREATE FUNCTION completions_keep_rates() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.rates IS NULL OR TG_OP = 'UPDATE' AND NEW.rates = OLD.rates AND {_rates_of("NEW")} <> {_rates_of("OLD")} THEN
        NEW.rates := {_rates_of("NEW")};
    ELSE
{_ASSIGNED}
    END IF;
    RETURN NEW;
END $$
"""
# Triggers refuse changes of prices and of their requests. One transaction fills the rates in without them.
_REFUSING = {"price": "prices_are_never_changed", "pricerequest": "price_requests_are_decided_once"}


def _fill(table: str) -> str:
    update = f"UPDATE completions_{table} SET rates = {_rates_of(f'completions_{table}')} WHERE rates IS NULL;"  # noqa: S608
    if trigger := _REFUSING.get(table):
        alter = f"ALTER TABLE completions_{table} %s TRIGGER {trigger};"
        update = f"{alter % 'DISABLE'} {update} {alter % 'ENABLE'}"
    return f"DO $$ BEGIN {update} END $$"


FILL = [_fill(table) for table in _TABLES]
# Prices are immutable, and requests but for their decision, so only what is inserted needs its rates filled in.
KEPT = [
    f"CREATE TRIGGER a_{table}_keeps_rates BEFORE INSERT{' OR UPDATE' if table == 'providerprice' else ''}"
    f" ON completions_{table} FOR EACH ROW EXECUTE FUNCTION completions_keep_rates()"
    for table in _TABLES
]
UNDO_KEPT = [f"DROP TRIGGER a_{table}_keeps_rates ON completions_{table}" for table in _TABLES]
_FORM = """rates IS NOT NULL AND jsonb_typeof(rates) = 'array'
    AND rates @? '$[*] ? (@.meter == "input" && @.tier == "" && @.above == 0)'
    AND rates @? '$[*] ? (@.meter == "output" && @.tier == "" && @.above == 0)'
    AND NOT rates @? '$[*] ? (!(@.meter.type() == "string" && @.tier.type() == "string"
        && @.nanos.type() == "number" && @.nanos >= 0 && @.nanos.floor() == @.nanos
        && @.above.type() == "number" && @.above >= 0 && @.above.floor() == @.above))'"""
_BANDS_FORM = """jsonb_typeof(bands) = 'object' AND NOT bands @? '$.keyvalue() ? (!(@.key like_regex "^[0-9]{1,10}$"))'
    AND NOT bands @? '$.* ? (@.type() != "object")' AND NOT bands @? '$.*.* ? (@.type() != "number")'"""


def _add_check(table: str, name: str, form: str) -> str:
    return f'ALTER TABLE "completions_{table}" ADD CONSTRAINT {name} CHECK ({form}) NOT VALID'


CHECKED = [_add_check(table, f"a_{table}_has_rates", _FORM) for table in _TABLES]
UNDO_CHECKED = [f'ALTER TABLE "completions_{table}" DROP CONSTRAINT a_{table}_has_rates' for table in _TABLES]
VALID = [
    statement
    for table in _TABLES
    for statement in (
        f'ALTER TABLE "completions_{table}" VALIDATE CONSTRAINT a_{table}_has_rates',
        f'ALTER TABLE "completions_{table}" ALTER COLUMN "rates" SET NOT NULL',
    )
]
BANDS = [
    _add_check("providerday", "a_day_has_bands", _BANDS_FORM),
    'ALTER TABLE "completions_providerday" VALIDATE CONSTRAINT a_day_has_bands',
]
UNDO_BANDS = 'ALTER TABLE "completions_providerday" DROP CONSTRAINT a_day_has_bands'
_CHARGED = (
    *("id", "account_id", "key_id", "model_id", "price_id", "settlement", "prompt_tokens", "cached_tokens"),
    *("cache_write_tokens", "completion_tokens", "images", "cost_nanos", "repeats", "charged_before_nanos"),
    *("spending_day", "limit_nanos", "limit_since", "created_at", "cache_write_1h_tokens", "service_tier", "web_searches"),
)


def _charges(columns: tuple[str, ...]) -> str:
    old, new = (", ".join(f"{row}.{name}" for name in columns) for row in ("OLD", "NEW"))
    return f"""
    CREATE OR REPLACE TRIGGER charges_are_never_changed AFTER UPDATE ON completions_completion FOR EACH ROW
        WHEN (OLD.settlement IS NOT NULL AND ({old}) IS DISTINCT FROM ({new}))
        EXECUTE FUNCTION completions_refuse_change()
    """


def _forget(model: str, constraints: list[str]) -> list[migrations.operations.base.Operation]:
    return [
        *(migrations.RemoveConstraint(model, name) for name in constraints),
        *(migrations.RemoveField(model, column) for *_, column in _COLUMNS),
    ]


_TIERS = ["a_flex_tier_has_whole_prices", "a_priority_tier_has_whole_prices"]
_PRICED = ["a_price_is_never_negative", "a_price_of_an_hour_is_never_negative", *_TIERS]
_PRICED += ["a_price_of_a_search_is_never_negative"]
_COSTS = [
    *("a_providers_price_is_never_negative", "a_providers_flex_tier_has_whole_prices"),
    "a_providers_priority_tier_has_whole_prices",
]


class Migration(migrations.Migration):
    atomic = False  # the constraints are validated after they are added, so that no row waits for it
    dependencies = [("completions", "0020_completions_say_what_was_held")]

    operations = [
        *(migrations.AddField(table, "rates", models.JSONField(null=True)) for table in _TABLES),
        migrations.AddField(
            "completion",
            "other_counts",
            models.JSONField(null=True, help_text="Numbers of meters that have no column. Empty: none."),
        ),
        migrations.AddField(
            "providerday",
            "bands",
            models.JSONField(
                default=dict,
                db_default={},
                help_text='Of these, by threshold, what long prompts used and were charged; at "0", numbers without a column.',
            ),
        ),
        migrations.AddField(
            "route",
            "unrated_tier",
            models.CharField(
                blank=True,
                db_default="",
                default="",
                editable=False,
                help_text="The last service tier that it served, and that the price had no rates for.",
                max_length=40,
            ),
        ),
        migrations.AddField(
            "route",
            "unrated_tier_at",
            models.DateTimeField(editable=False, help_text="When it did so.", null=True),
        ),
        migrations.RunSQL(_charges((*_CHARGED, "other_counts")), _charges(_CHARGED), hints={"is_owned": True}),
        migrations.RunSQL(BANDS, UNDO_BANDS, hints={"is_owned": True}),
        migrations.RunSQL(KEEP_RATES, "DROP FUNCTION completions_keep_rates()", hints={"is_owned": False}),
        migrations.RunSQL(KEPT, UNDO_KEPT, hints={"is_owned": False}),
        migrations.RunSQL(FILL, migrations.RunSQL.noop, hints={"is_owned": False}),
        migrations.RunSQL(CHECKED, UNDO_CHECKED, hints={"is_owned": False}),
        migrations.RunSQL(VALID, migrations.RunSQL.noop, hints={"is_owned": False}),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                *_forget("price", _PRICED),
                *_forget("pricerequest", []),
                *_forget("providerprice", _COSTS),
                *(migrations.AlterField(table, "rates", models.JSONField()) for table in _TABLES),
            ]
        ),
    ]
