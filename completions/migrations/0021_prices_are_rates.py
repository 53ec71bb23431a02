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
_VALUES = ", ".join(f"('{name}', '{tier}', price.{column})" for name, tier, column in _COLUMNS)
_ASSIGNED = "\n".join(f"        NEW.{column} := stated -> '{tier}:{name}';" for name, tier, column in _COLUMNS)
_TABLES = ("price", "pricerequest", "providerprice")

FUNCTIONS = f"""
CREATE FUNCTION completions_rates_of(columns jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_agg(jsonb_build_object('meter', meter, 'tier', tier, 'above', 0, 'nanos', nanos))
    FROM jsonb_to_record(columns) AS price({", ".join(f"{column} bigint" for *_, column in _COLUMNS)})
    CROSS JOIN LATERAL (VALUES {_VALUES}) AS stated(meter, tier, nanos)
    WHERE nanos IS NOT NULL
$$;

CREATE FUNCTION completions_keep_rates() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    stated jsonb;
BEGIN
    IF NEW.rates IS NULL OR TG_OP = 'UPDATE' AND NEW.rates = OLD.rates
        AND completions_rates_of(to_jsonb(NEW)) IS DISTINCT FROM completions_rates_of(to_jsonb(OLD))
    THEN
        NEW.rates := completions_rates_of(to_jsonb(NEW));
    ELSE
        SELECT jsonb_object_agg(tier || ':' || meter, nanos) INTO stated
        FROM jsonb_to_recordset(NEW.rates) AS rate(meter text, tier text, above bigint, nanos bigint) WHERE above = 0;
{_ASSIGNED}
    END IF;
    RETURN NEW;
END $$;
"""  # noqa: S608  names of this module
UNDO_FUNCTIONS = "DROP FUNCTION completions_keep_rates(); DROP FUNCTION completions_rates_of(jsonb);"
# The rates of a row may be filled in once.
FILLED_ONCE = """
CREATE OR REPLACE TRIGGER prices_are_never_changed BEFORE UPDATE ON completions_price FOR EACH ROW
    WHEN (OLD.rates IS NOT NULL OR (to_jsonb(OLD) - 'rates') IS DISTINCT FROM (to_jsonb(NEW) - 'rates'))
    EXECUTE FUNCTION completions_refuse_change();
"""
NEVER_CHANGED = """
CREATE OR REPLACE TRIGGER prices_are_never_changed BEFORE UPDATE ON completions_price
    FOR EACH ROW EXECUTE FUNCTION completions_refuse_change();
"""
_TERMS = "ARRAY['decision', 'decided_by_id', 'decided_at', 'decision_reason', 'price_id'%s]"


def _check_request(filled: str, more: str) -> str:
    terms = _TERMS % more
    return f"""
    CREATE OR REPLACE FUNCTION completions_check_price_request() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        {filled}
        IF TG_OP = 'DELETE' OR OLD.decision <> '' THEN
            RAISE EXCEPTION 'the price request % stays as it is: % is refused', OLD.id, TG_OP USING ERRCODE = 'check_violation';
        END IF;
        IF to_jsonb(NEW) - {terms} IS DISTINCT FROM to_jsonb(OLD) - {terms} THEN
            RAISE EXCEPTION 'the terms of price request % are fixed', OLD.id USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END $$;
    """


_FILLED = """
        IF TG_OP = 'UPDATE' AND OLD.rates IS NULL AND to_jsonb(NEW) - 'rates' = to_jsonb(OLD) - 'rates' THEN
            RETURN NEW;
        END IF;
"""
FILL = "".join(
    f"UPDATE completions_{table} AS price SET rates = completions_rates_of(to_jsonb(price)) WHERE rates IS NULL;\n"  # noqa: S608
    for table in _TABLES
)
# Requests are immutable but for their decision, so only what is inserted needs its rates filled in.
KEPT = "".join(
    f"CREATE TRIGGER a_{table}_keeps_rates BEFORE INSERT{' OR UPDATE' if table == 'providerprice' else ''}\n"
    f"    ON completions_{table} FOR EACH ROW EXECUTE FUNCTION completions_keep_rates();\n"
    for table in _TABLES
)
UNDO_KEPT = "".join(f"DROP TRIGGER a_{table}_keeps_rates ON completions_{table};\n" for table in _TABLES)
_FORM = """rates IS NOT NULL AND jsonb_typeof(rates) = 'array'
    AND rates @? '$[*] ? (@.meter == "input" && @.tier == "" && @.above == 0)'
    AND NOT rates @? '$[*] ? (!(@.nanos.type() == "number" && @.nanos >= 0 && @.above >= 0
        && @.meter.type() == "string" && @.tier.type() == "string"))'"""
CHECKED = "".join(
    f"ALTER TABLE completions_{table} ADD CONSTRAINT a_{table}_has_rates CHECK ({_FORM}) NOT VALID;\n" for table in _TABLES
)
UNDO_CHECKED = "".join(f"ALTER TABLE completions_{table} DROP CONSTRAINT a_{table}_has_rates;\n" for table in _TABLES)
VALID = "".join(
    f"ALTER TABLE completions_{table} VALIDATE CONSTRAINT a_{table}_has_rates;\n"
    f"ALTER TABLE completions_{table} ALTER COLUMN rates SET NOT NULL;\n"
    for table in _TABLES
)
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
        EXECUTE FUNCTION completions_refuse_change();
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
        migrations.RunSQL(_charges((*_CHARGED, "other_counts")), _charges(_CHARGED)),
        migrations.RunSQL(FUNCTIONS, UNDO_FUNCTIONS),
        migrations.RunSQL(FILLED_ONCE, NEVER_CHANGED),
        migrations.RunSQL(_check_request(_FILLED, ""), _check_request("", "")),
        migrations.RunSQL(KEPT, UNDO_KEPT),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.RunSQL(CHECKED, UNDO_CHECKED),
        migrations.RunSQL(VALID, migrations.RunSQL.noop),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                *_forget("price", _PRICED),
                *_forget("pricerequest", []),
                *_forget("providerprice", _COSTS),
                *(migrations.AlterField(table, "rates", models.JSONField()) for table in _TABLES),
            ]
        ),
    ]
