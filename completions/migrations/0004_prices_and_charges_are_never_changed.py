"""Triggers: a price is never changed, nor what a settled completion was charged for. A refusal is a check_violation.

The trigger of completions runs after the update, and only where it changes what is settled: settling costs nothing more.
"""

from django.db import migrations

PRICES = """
CREATE FUNCTION completions_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: what was charged stays as it is', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER prices_are_never_changed BEFORE UPDATE ON completions_price
    FOR EACH ROW EXECUTE FUNCTION completions_refuse_change();
"""

COMPLETIONS = """
CREATE TRIGGER completions_are_never_deleted BEFORE DELETE ON completions_completion
    FOR EACH ROW EXECUTE FUNCTION completions_refuse_change();

CREATE TRIGGER charges_are_never_changed AFTER UPDATE ON completions_completion FOR EACH ROW
    WHEN (OLD.settlement IS NOT NULL AND (
        OLD.id, OLD.account_id, OLD.key_id, OLD.model_id, OLD.price_id, OLD.settlement, OLD.prompt_tokens, OLD.cached_tokens,
        OLD.cache_write_tokens, OLD.completion_tokens, OLD.images, OLD.cost_nanos, OLD.repeats, OLD.charged_before_nanos,
        OLD.spending_day, OLD.limit_nanos, OLD.limit_since, OLD.created_at
    ) IS DISTINCT FROM (
        NEW.id, NEW.account_id, NEW.key_id, NEW.model_id, NEW.price_id, NEW.settlement, NEW.prompt_tokens, NEW.cached_tokens,
        NEW.cache_write_tokens, NEW.completion_tokens, NEW.images, NEW.cost_nanos, NEW.repeats, NEW.charged_before_nanos,
        NEW.spending_day, NEW.limit_nanos, NEW.limit_since, NEW.created_at
    ))
    EXECUTE FUNCTION completions_refuse_change();
"""

UNDO = """
DROP TRIGGER charges_are_never_changed ON completions_completion;
DROP TRIGGER completions_are_never_deleted ON completions_completion;
DROP TRIGGER prices_are_never_changed ON completions_price;
DROP FUNCTION completions_refuse_change();
"""


class Migration(migrations.Migration):
    atomic = False  # PostgreSQL runs the statements of one string as one transaction; no row is changed
    dependencies = [("completions", "0003_ready_groups")]

    operations = [migrations.RunSQL(PRICES + COMPLETIONS, UNDO)]
