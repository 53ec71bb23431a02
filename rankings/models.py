"""The data of the sources, the mapping of their names to our models, and the published rankings."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from completions.models import Category, LanguageModel


class Source(models.TextChoices):
    """The ids of the sources, in the order in which they are listed. Each has a module in ``rankings.sources``.

    A new id needs a migration of the choices, which changes no table.
    """

    INTERNAL = "INTERNAL", "This gateway"
    LMSYS_ARENA = "LMSYS_ARENA", "LMArena"
    HUGGINGFACE = "HUGGINGFACE", "Hugging Face"
    ARTIFICIAL_ANALYSIS = "ARTIFICIAL_ANALYSIS", "Artificial Analysis"
    OPENROUTER = "OPENROUTER", "OpenRouter"


class SourceState(models.Model):
    """The state of a source's runs: its health is derived from it, and when it is read next. INTERNAL has a row, too."""

    source = models.CharField(primary_key=True, max_length=20, choices=Source.choices)
    last_success_at = models.DateTimeField(null=True, help_text="Also of a run that found nothing new.")
    last_attempt_at = models.DateTimeField(null=True)
    next_attempt_at = models.DateTimeField(null=True, help_text="Empty: whenever its turn comes.")
    failures = models.PositiveSmallIntegerField(default=0, help_text="In a row.")
    error = models.TextField(blank=True, help_text="Of the last attempt.")
    is_refused = models.BooleanField(default=False, help_text="401 or 403: it will not answer until its configuration changes.")
    validators = models.JSONField(default=dict, help_text="ETags, dates and revisions, by URL.")

    def __str__(self) -> str:
        return self.source


class Snapshot(models.Model):
    """One complete reading of a source. The last one that was not held back is published; older ones are kept for a while."""

    source = models.CharField(max_length=20, choices=Source.choices)
    taken_at = models.DateTimeField(db_default=Now())
    as_of = models.DateTimeField(help_text="The source's own date, or when its unchanged body was first fetched.")
    fingerprint = models.CharField(max_length=64, help_text="SHA-256 of what was read, in canonical form.")
    version = models.CharField(max_length=40, blank=True, help_text="Of the source's method, where it has one.")
    attribution = models.TextField(blank=True)
    boards = models.JSONField(
        default=dict, db_default={}, help_text="By board: its version, and since when it has not been read, if it was not."
    )
    notes = models.TextField(blank=True, db_default="", help_text="What was left out.")
    held_because = models.TextField(
        "held back because", blank=True, db_default="", help_text="Why it is not published. Empty: it is, or was."
    )

    class Meta:
        indexes = [models.Index(fields=["source", "-id"], name="snapshots_by_source")]

    def __str__(self) -> str:
        return f"{self.source} of {self.as_of:%Y-%m-%d}"


class Standing(models.Model):
    """The position of one of a source's models on one of its boards. All its models, since percentiles need the population."""

    snapshot = models.ForeignKey(Snapshot, on_delete=models.CASCADE, related_name="standings")
    board = models.CharField(max_length=20, choices=Category.choices)
    external_key = models.CharField(max_length=300, help_text="The source's name for the model, as it is.")
    key_kind = models.CharField(max_length=20, help_text="Which kind of name: model_name, hf_repo, aa_id, canonical_slug.")
    name = models.CharField(max_length=300)
    organization = models.CharField(max_length=200, blank=True)
    rank = models.PositiveIntegerField()
    value = models.FloatField(help_text="Rating, score, index or tokens: what the board is sorted by.")
    facts = models.JSONField(default=dict, help_text="What else the source said that a score is made of.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["snapshot", "board", "external_key"], name="a_model_stands_once_on_a_board")
        ]

    def __str__(self) -> str:
        return f"{self.external_key} on {self.board}"


class Alias(models.Model):
    """Our model of a source's name. Without a model: a person has decided that the name is none of ours."""

    class Method(models.TextChoices):
        CURATED = "curated", "in the file of identities"
        STAFF = "staff", "by hand"
        LINK = "link", "declared by the source"
        RULE = "rule", "equal after normalisation, within one maker"

    source = models.CharField(max_length=20, choices=Source.choices)
    key_kind = models.CharField(max_length=20)
    external_key = models.CharField(max_length=300)
    model = models.ForeignKey(LanguageModel, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    method = models.CharField(max_length=10, choices=Method.choices)
    confidence = models.FloatField(default=1.0)
    note = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name_plural = "aliases"
        constraints = [
            models.UniqueConstraint(fields=["source", "key_kind", "external_key"], name="a_name_means_one_model"),
            models.CheckConstraint(condition=Q(confidence__gt=0, confidence__lte=1), name="a_confidence_is_a_share"),
        ]

    def __str__(self) -> str:
        return f"{self.external_key} at {self.source}"


class Profile(models.Model):
    """Facts about a model for identity and the formula, which the catalog does not have."""

    model = models.OneToOneField(LanguageModel, primary_key=True, on_delete=models.CASCADE, related_name="+")
    open_weights = models.BooleanField(default=False)
    hf_repo = models.CharField(max_length=200, blank=True)
    effort = models.CharField(max_length=10, blank=True, help_text="The reasoning effort that is served by default.")

    def __str__(self) -> str:
        return self.model_id


class Entry(models.Model):
    """A published entry: one of our models on one board of one source. All entries of a source are replaced together."""

    source = models.CharField(max_length=20, choices=Source.choices)
    board = models.CharField(max_length=20, choices=Category.choices)
    model = models.ForeignKey(LanguageModel, on_delete=models.CASCADE, related_name="+")
    rank = models.PositiveIntegerField(help_text="On the source's general board, in its whole population.")
    board_rank = models.PositiveIntegerField(help_text="On this board.")
    change = models.IntegerField(default=0, help_text="Ranks gained since a week ago.")
    overall = models.FloatField(null=True)
    quality = models.FloatField(null=True)
    speed = models.FloatField(null=True)
    cost = models.FloatField(null=True)
    elo = models.IntegerField(null=True)
    mmlu = models.FloatField(null=True)
    hellaswag = models.FloatField(null=True)
    human_eval = models.FloatField(null=True)
    confidence = models.FloatField()
    last_updated = models.DateTimeField()
    inputs = models.JSONField(default=dict, help_text="What the scores were made of, for the page that explains them.")

    class Meta:
        verbose_name_plural = "entries"
        constraints = [models.UniqueConstraint(fields=["source", "board", "model"], name="a_model_is_listed_once_on_a_board")]

    def __str__(self) -> str:
        return f"{self.model_id} on {self.source} {self.board}"


class DailyRank(models.Model):
    """The published rank of a model on a day: the history for ``change`` and for a model's page."""

    source = models.CharField(max_length=20, choices=Source.choices)
    board = models.CharField(max_length=20, choices=Category.choices)
    model = models.ForeignKey(LanguageModel, on_delete=models.CASCADE, related_name="+")
    day = models.DateField()
    rank = models.PositiveIntegerField()
    overall = models.FloatField(null=True)
    series = models.CharField(
        max_length=40, blank=True, db_default="", help_text="The major version of the board: ranks of two are not compared."
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "board", "model", "day"], name="a_model_has_one_rank_a_day")]

    def __str__(self) -> str:
        return f"{self.model_id} on {self.day}"


class Publication(models.Model):
    """The number of the last publication, in one row. Caches are valid as long as the number is the same."""

    number = models.BigIntegerField(default=0)
    changed_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return str(self.number)
