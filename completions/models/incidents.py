"""Incidents on the status page."""

from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from gateway_project.db.constraints import must_hold


class Incident(models.Model):
    """Something that does not work, or will not for a while, in the words of staff. The status page and its feed show it."""

    class Impact(models.TextChoices):
        MINOR = "minor", "Some requests are affected"
        MAJOR = "major", "Most requests are affected"
        MAINTENANCE = "maintenance", "Planned maintenance"

    title = models.CharField(max_length=200, help_text="For example, OpenAI models answer slowly.")
    impact = models.CharField(max_length=20, choices=Impact.choices, default=Impact.MINOR)
    began_at = models.DateTimeField("began at (UTC)", default=timezone.now)
    ended_at = models.DateTimeField("ended at (UTC)", null=True, blank=True, help_text="Leave empty while it lasts.")

    class Meta:
        constraints = must_hold(an_incident_ends_after_it_began=Q(ended_at__isnull=True) | Q(ended_at__gte=F("began_at")))

    def __str__(self) -> str:
        return self.title

    @property
    def is_maintenance(self) -> bool:
        return self.impact == Incident.Impact.MAINTENANCE


class IncidentUpdate(models.Model):
    """The state of an incident at some moment."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="updates")
    at = models.DateTimeField("at (UTC)", default=timezone.now)
    text = models.TextField(help_text="Everybody can read it. For example, We send requests to other providers.")

    class Meta:
        ordering = ["-at", "-id"]
        verbose_name = "update"

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} UTC"
