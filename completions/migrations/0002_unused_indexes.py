"""Drops two indexes that Django makes for LIKE, of which an index of bytes (db_collation C) is capable itself."""

from django.db import migrations


class Migration(migrations.Migration):
    replaces = [
        ("completions", "0002_idempotency"),
        ("completions", "0003_checkpoints"),
        ("completions", "0004_capabilities_and_routes"),
        ("completions", "0005_proposals"),
        ("completions", "0006_ids_are_compared_as_bytes"),
        ("completions", "0007_admissions_say_their_limit"),
        ("completions", "0008_refused_provider_keys"),
        ("completions", "0009_keys_count_their_open_holds"),
        ("completions", "0010_departures_are_read_to_the_end"),
        ("completions", "0011_stored_replies_have_a_size"),
        ("completions", "0012_unknown_fields_need_permission"),
        ("completions", "0013_circuits_are_hints_to_other_processes"),
        ("completions", "0014_repeated_runs_pay_the_difference"),
        ("completions", "0015_models_have_a_maximum_in_flight"),
        ("completions", "0016_validate_the_maximum_of_models"),
        ("completions", "0017_completions_keep_their_request"),
        ("completions", "0018_completions_are_found_by_request"),
        ("completions", "0019_stored_replies_are_found_by_age"),
        ("completions", "0020_completions_keep_their_providers_request"),
        ("completions", "0021_completions_are_found_by_key"),
        ("completions", "0023_hours_of_completions"),
        ("completions", "0025_completions_keep_their_labels"),
        ("completions", "0026_usage_by_hour"),
        ("completions", "0027_models_have_a_kind"),
        ("completions", "0028_labels_by_name"),
        ("completions", "0029_aliases_keep_their_rankings"),
    ]

    dependencies = [("completions", "0001_initial")]

    operations = [
        migrations.RunSQL(
            "DROP INDEX completions_completion_id_0fedc3e9_like;"
            "DROP INDEX completions_idempotentrequest_completion_id_a10f628e_like",
            "CREATE INDEX completions_completion_id_0fedc3e9_like ON completions_completion (id varchar_pattern_ops);"
            "CREATE INDEX completions_idempotentrequest_completion_id_a10f628e_like"
            " ON completions_idempotentrequest (completion_id varchar_pattern_ops)",
        ),
    ]
