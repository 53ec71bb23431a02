"""Prices that staff set wait for a second person, and what providers charge is compared with what callers are charged."""

from typing import Any

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import gateway_project.identifiers
from gateway_project.activity import staff_groups

DECIDED_ONCE = """
CREATE FUNCTION completions_check_price_request() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.decision <> '' THEN
        RAISE EXCEPTION 'the price request % stays as it is: % is refused', OLD.id, TG_OP USING ERRCODE = 'check_violation';
    END IF;
    IF to_jsonb(NEW) - ARRAY['decision', 'decided_by_id', 'decided_at', 'decision_reason', 'price_id']
        IS DISTINCT FROM to_jsonb(OLD) - ARRAY['decision', 'decided_by_id', 'decided_at', 'decision_reason', 'price_id']
    THEN
        RAISE EXCEPTION 'the terms of price request % are fixed', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER price_requests_are_decided_once BEFORE UPDATE OR DELETE ON completions_pricerequest
    FOR EACH ROW EXECUTE FUNCTION completions_check_price_request();
"""
UNDO = """
DROP TRIGGER price_requests_are_decided_once ON completions_pricerequest;
DROP FUNCTION completions_check_price_request();
"""

_READ = ["view_pricerequest", "view_providerprice", "view_providerday"]
_FAILURES = ["view_provider", "view_route"]  # so that support sees which provider fails
GROUPS = {
    "Support": _FAILURES,
    "Support lead": _FAILURES,
    "Finance": [*_READ, "approve_price", "add_providerprice", "change_providerprice"],
    "Catalogue": [*_READ, "approve_price", "add_providerprice", "change_providerprice"],
    "Operator": _READ,
}


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.extend(apps, "completions", GROUPS)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("completions", "0014_searches_have_prices"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="PriceRequest",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=gateway_project.identifiers.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("ticket", models.CharField(blank=True, max_length=100)),
                ("requested_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                (
                    "decision",
                    models.CharField(
                        blank=True, choices=[("APPROVED", "approved"), ("DECLINED", "declined")], default="", max_length=8
                    ),
                ),
                ("decided_at", models.DateTimeField(null=True)),
                ("decision_reason", models.CharField(blank=True, max_length=500)),
                ("input_nanos", models.BigIntegerField()),
                ("output_nanos", models.BigIntegerField()),
                ("cached_input_nanos", models.BigIntegerField(blank=True, help_text="Empty: as input.", null=True)),
                ("cache_write_nanos", models.BigIntegerField(blank=True, help_text="Empty: as input.", null=True)),
                (
                    "cache_write_1h_nanos",
                    models.BigIntegerField(
                        blank=True, help_text="Of what a cache keeps for an hour. Empty: that is not offered.", null=True
                    ),
                ),
                (
                    "flex_input_nanos",
                    models.BigIntegerField(blank=True, help_text="Of the flex tier. Empty: it is not offered.", null=True),
                ),
                ("flex_cached_input_nanos", models.BigIntegerField(blank=True, help_text="Empty: as its input.", null=True)),
                ("flex_output_nanos", models.BigIntegerField(blank=True, null=True)),
                (
                    "priority_input_nanos",
                    models.BigIntegerField(blank=True, help_text="Of the priority tier. Empty: it is not offered.", null=True),
                ),
                (
                    "priority_cached_input_nanos",
                    models.BigIntegerField(blank=True, help_text="Empty: as its input.", null=True),
                ),
                ("priority_output_nanos", models.BigIntegerField(blank=True, null=True)),
                (
                    "image_nanos",
                    models.BigIntegerField(
                        blank=True, help_text="Nanodollars for each image, beside its tokens. Empty: nothing.", null=True
                    ),
                ),
                (
                    "web_search_nanos",
                    models.BigIntegerField(
                        blank=True,
                        help_text="Nanodollars for each search of the web. Empty: that is not offered.",
                        null=True,
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("starts_at", models.DateTimeField(help_text="Empty: when it is approved.", null=True)),
                (
                    "before",
                    models.ForeignKey(
                        help_text="In force then, as its author saw it.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="completions.price",
                    ),
                ),
                (
                    "decided_by",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="completions.languagemodel"
                    ),
                ),
                (
                    "price",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        help_text="What was set. It may be withdrawn until it begins.",
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="completions.price",
                    ),
                ),
                (
                    "requested_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "permissions": [("approve_price", "Can approve a price that somebody else asks for")],
                "default_permissions": ("view",),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decision", "APPROVED"), _negated=True),
                            models.Q(("decided_by", models.F("requested_by")), _negated=True),
                            _connector="OR",
                        ),
                        name="nobody_approves_a_price_they_asked_for",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decided_at__isnull", True), ("decided_by__isnull", True), ("decision", "")),
                            models.Q(
                                ("decided_at__isnull", False),
                                ("decided_by__isnull", False),
                                ("decision__in", ["APPROVED", "DECLINED"]),
                            ),
                            _connector="OR",
                        ),
                        name="a_price_waits_until_it_is_decided",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decision", "APPROVED"), ("price__isnull", False)),
                            models.Q(models.Q(("decision", "APPROVED"), _negated=True), ("price__isnull", True)),
                            _connector="OR",
                        ),
                        name="only_an_approved_price_is_set",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("decision", "")), fields=("model",), name="a_price_is_asked_for_once_at_a_time"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ProviderDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("service_tier", models.CharField(blank=True, help_text="Empty: none with prices of its own.", max_length=10)),
                ("completions", models.BigIntegerField()),
                ("charged_nanos", models.BigIntegerField()),
                ("prompt_tokens", models.BigIntegerField()),
                ("cached_tokens", models.BigIntegerField()),
                ("cache_write_tokens", models.BigIntegerField()),
                ("cache_write_1h_tokens", models.BigIntegerField()),
                ("completion_tokens", models.BigIntegerField()),
                ("images", models.BigIntegerField()),
                ("web_searches", models.BigIntegerField()),
                (
                    "model",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="completions.languagemodel",
                    ),
                ),
                (
                    "provider",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="completions.provider"
                    ),
                ),
            ],
            options={
                "verbose_name": "margin",
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("day", "provider", "model", "service_tier"), name="a_day_of_a_provider_is_summed_up_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ProviderPrice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("input_nanos", models.BigIntegerField()),
                ("output_nanos", models.BigIntegerField()),
                ("cached_input_nanos", models.BigIntegerField(blank=True, help_text="Empty: as input.", null=True)),
                ("cache_write_nanos", models.BigIntegerField(blank=True, help_text="Empty: as input.", null=True)),
                (
                    "cache_write_1h_nanos",
                    models.BigIntegerField(
                        blank=True, help_text="Of what a cache keeps for an hour. Empty: that is not offered.", null=True
                    ),
                ),
                (
                    "flex_input_nanos",
                    models.BigIntegerField(blank=True, help_text="Of the flex tier. Empty: it is not offered.", null=True),
                ),
                ("flex_cached_input_nanos", models.BigIntegerField(blank=True, help_text="Empty: as its input.", null=True)),
                ("flex_output_nanos", models.BigIntegerField(blank=True, null=True)),
                (
                    "priority_input_nanos",
                    models.BigIntegerField(blank=True, help_text="Of the priority tier. Empty: it is not offered.", null=True),
                ),
                (
                    "priority_cached_input_nanos",
                    models.BigIntegerField(blank=True, help_text="Empty: as its input.", null=True),
                ),
                ("priority_output_nanos", models.BigIntegerField(blank=True, null=True)),
                (
                    "image_nanos",
                    models.BigIntegerField(
                        blank=True, help_text="Nanodollars for each image, beside its tokens. Empty: nothing.", null=True
                    ),
                ),
                (
                    "web_search_nanos",
                    models.BigIntegerField(
                        blank=True,
                        help_text="Nanodollars for each search of the web. Empty: that is not offered.",
                        null=True,
                    ),
                ),
                ("since", models.DateField(help_text="The first UTC day of this price. A past day counts, too.")),
                (
                    "model",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="provider_prices",
                        to="completions.languagemodel",
                    ),
                ),
                (
                    "provider",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="prices", to="completions.provider"
                    ),
                ),
            ],
            options={
                "ordering": ["model", "provider", "-since"],
                "constraints": [
                    models.UniqueConstraint(fields=("model", "provider", "since"), name="a_provider_has_one_price_at_a_time"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("input_nanos__gte", 0),
                            ("output_nanos__gte", 0),
                            models.Q(("cached_input_nanos__isnull", True), ("cached_input_nanos__gte", 0), _connector="OR"),
                            models.Q(("cache_write_nanos__isnull", True), ("cache_write_nanos__gte", 0), _connector="OR"),
                            models.Q(("cache_write_1h_nanos__isnull", True), ("cache_write_1h_nanos__gte", 0), _connector="OR"),
                            models.Q(("image_nanos__isnull", True), ("image_nanos__gte", 0), _connector="OR"),
                            models.Q(("web_search_nanos__isnull", True), ("web_search_nanos__gte", 0), _connector="OR"),
                        ),
                        name="a_providers_price_is_never_negative",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("flex_cached_input_nanos__isnull", True),
                                ("flex_input_nanos__isnull", True),
                                ("flex_output_nanos__isnull", True),
                            ),
                            models.Q(
                                ("flex_input_nanos__gte", 0),
                                ("flex_input_nanos__isnull", False),
                                ("flex_output_nanos__gte", 0),
                                ("flex_output_nanos__isnull", False),
                                models.Q(
                                    ("flex_cached_input_nanos__isnull", True),
                                    ("flex_cached_input_nanos__gte", 0),
                                    _connector="OR",
                                ),
                            ),
                            _connector="OR",
                        ),
                        name="a_providers_flex_tier_has_whole_prices",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("priority_cached_input_nanos__isnull", True),
                                ("priority_input_nanos__isnull", True),
                                ("priority_output_nanos__isnull", True),
                            ),
                            models.Q(
                                ("priority_input_nanos__gte", 0),
                                ("priority_input_nanos__isnull", False),
                                ("priority_output_nanos__gte", 0),
                                ("priority_output_nanos__isnull", False),
                                models.Q(
                                    ("priority_cached_input_nanos__isnull", True),
                                    ("priority_cached_input_nanos__gte", 0),
                                    _connector="OR",
                                ),
                            ),
                            _connector="OR",
                        ),
                        name="a_providers_priority_tier_has_whole_prices",
                    ),
                ],
            },
        ),
        migrations.RunSQL(DECIDED_ONCE, UNDO),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
