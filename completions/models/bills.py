"""Bills of providers, and how they compare with what the gateway knows of each day. All cells share them.

Costs of bills are exact: a cloud bills a line of three tokens with a dozen decimals below the nanodollar, and a month has
millions of them. So they are numeric in dollars, ``_usd``, with 30 decimals, as many as OpenAI writes. A line with more is not
read.
"""

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Abs, Greatest, Now

from completions.models.catalog import LanguageModel, Provider
from gateway_project.db.constraints import must_hold

DECIMALS_MAX = 30
UNEXPLAINED = Greatest(Abs("unexplained_usd"), "hours_usd")  # of a comparison, whether too much or too little


def _usd(**options: str) -> models.DecimalField:  # type: ignore[type-arg]
    return models.DecimalField(max_digits=60, decimal_places=DECIMALS_MAX, **options)  # type: ignore[arg-type]


class Bill(models.Model):
    """One import of a provider's export. Of several that have a day the newest counts, whole: providers issue days again."""

    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="+", db_index=False)
    file_name = models.CharField("file", max_length=200)
    format = models.CharField(max_length=60)
    sha256 = models.CharField(max_length=64, help_text="Of the unpacked files, and of which accounts are ours.")
    days: Any = ArrayField(models.DateField(), default=list, db_default=[], help_text="UTC days that it has costs of.")
    lines = models.BigIntegerField(default=0, help_text="Lines that charge for models.")
    total_usd = _usd(default="0", verbose_name="total")
    rounding_usd = _usd(default="0", verbose_name="rounding", help_text="Half of the last digit that its costs have.")
    left_out = models.JSONField(
        default=dict, help_text="Of each kind of other lines: how many, their cost, and the first ones."
    )
    begun_at = models.DateTimeField("imported at", db_default=Now())
    finished_at = models.DateTimeField(null=True, editable=False, help_text="Empty: its import has not ended.")

    class Meta:
        default_permissions = ("view", "add", "delete")
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "sha256"], condition=Q(finished_at__isnull=False), name="a_bill_is_imported_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.file_name} of {self.provider_id}"


class BillLine(models.Model):
    """Lines of a bill that say the same but for quantity and cost, added up; with an id of a request, one line."""

    bill = models.ForeignKey(Bill, on_delete=models.CASCADE, related_name="+", db_index=False)
    day = models.DateField()
    hour = models.PositiveSmallIntegerField(null=True, help_text="In UTC. Empty: not told.")
    name = models.CharField(max_length=300, help_text="The model, as the provider calls it here.")
    account = models.CharField(max_length=500, help_text="The provider's account, project or key. Empty: not told.")
    request_id = models.CharField(max_length=100, help_text="Empty: not told.")
    tokens = models.BigIntegerField(null=True, help_text="Empty: not told, or in another unit.")
    cost_usd = _usd()
    lines = models.BigIntegerField()
    first_line = models.BigIntegerField(help_text="The number of the first of them in its file.")

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["bill", "day"], name="lines_of_a_bill_by_day")]

    def __str__(self) -> str:
        return f"{self.name} on {self.day}"


class BilledModel(models.Model):
    """A name on a provider's bills, and the model that it stands for, as staff say."""

    provider = models.ForeignKey(Provider, on_delete=models.CASCADE, related_name="+", db_index=False)
    name = models.CharField(max_length=300, help_text="As the comparison shows it.")
    model = models.ForeignKey(LanguageModel, on_delete=models.CASCADE, related_name="+", db_index=False)

    class Meta:
        verbose_name = "name on bills"
        verbose_name_plural = "names on bills"
        constraints = [models.UniqueConstraint(fields=["provider", "name"], name="a_name_on_bills_has_one_meaning")]

    def __str__(self) -> str:
        return f"{self.name} of {self.provider_id}"


class BillComparison(models.Model):
    """A model at a provider on a UTC day: charged, expected and billed. Only ``bills.comparison`` writes it, anew each time."""

    class Finding(models.TextChoices):
        UNKNOWN_MODEL = "unknown_model", "unknown model: say what the name stands for"
        UNKNOWN_REQUEST = "unknown_request", "no completion has these requests: failed attempts, or others with the key"
        NO_PRICE = "no_price", "the catalog has no price of the provider"
        NOT_BILLED = "not_billed", "not in the bill"
        NOT_USED = "not_used", "billed without a completion"
        OTHER_PRICE = "other_price", "the same tokens at another price: check the provider's price"
        OTHER_TOKENS = "other_tokens", "other tokens than completions have"
        EARLY = "early", "the export was made before the day's figures were final"
        HOURS = "hours", "the day agrees, its hours do not"

    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="+", db_index=False)
    day = models.DateField("UTC day")
    name = models.CharField("model", max_length=300, help_text="The model's ID, or the name of an unknown model on the bill.")
    bill = models.ForeignKey(Bill, on_delete=models.CASCADE, related_name="+")
    completions = models.BigIntegerField()
    lines = models.BigIntegerField("lines of the bill")
    charged_nanos = models.BigIntegerField("charged")
    expected_nanos = models.BigIntegerField("expected cost", null=True, help_text="At the catalog's price of the provider.")
    billed_usd = _usd(verbose_name="billed")
    reasons = models.JSONField(help_text="What explains the difference, in US dollars by reason.")
    unexplained_usd = _usd(verbose_name="unexplained")
    hours = models.JSONField(default=list, db_default=[], help_text="The hours that do not agree, with amounts in US dollars.")
    hours_usd = _usd(default="0", db_default="0", help_text="What is unexplained in its hours, whether too much or too little.")
    finding = models.CharField(max_length=20, choices=Finding.choices, blank=True)
    compared_at = models.DateTimeField(db_default=Now())

    class Meta:
        default_permissions = ("view",)
        verbose_name = "bill comparison"
        constraints = [
            models.UniqueConstraint(fields=["provider", "day", "name"], name="a_model_is_compared_once_a_day"),
            *must_hold(a_comparison_has_something=Q(completions__gt=0) | Q(lines__gt=0) | ~Q(charged_nanos=0)),
        ]
        indexes = [models.Index(UNEXPLAINED.desc(), name="comparisons_by_size")]

    def __str__(self) -> str:
        return f"{self.name} at {self.provider_id} on {self.day}"

    @property
    def unequal_hours(self) -> list[int]:
        return [each["hour"] for each in self.hours]
