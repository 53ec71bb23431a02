"""The tables of cells and of the directory."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from gateway_project.db import cell
from gateway_project.db.constraints import must_hold


class Cell(models.Model):
    """A cell that an operator added. The first cell has no row."""

    number = models.PositiveSmallIntegerField(primary_key=True)
    is_open = models.BooleanField(default=False, help_text="New accounts may be put here.")
    added_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = must_hold(the_first_cell_has_no_row=models.Q(number__gt=cell.FIRST, number__lt=62 * 62))

    def __str__(self) -> str:
        return f"cell {self.number}"


class AccountPlace(models.Model):
    """The cell of an account."""

    account_id = models.UUIDField(primary_key=True)
    cell = models.PositiveSmallIntegerField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["cell"], name="places_by_cell")]


class UserPlace(models.Model):
    """A cell in which a user is, or was, a member of an account."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    cell = models.PositiveSmallIntegerField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["user", "cell"], name="a_user_is_once_in_a_cell")]


class Reference(models.Model):
    """The account of something that is looked up before its account is known, such as a key. It says so once for all cells."""

    class Kind(models.TextChoices):
        KEY = "key"
        MANAGEMENT_KEY = "management key"
        PAYMENT = "payment"
        INVITATION = "invitation"
        ENTRY = "entry"  # that no payment at a processor explains, by its reference

    kind = models.CharField(max_length=20, choices=Kind)
    value = models.CharField(max_length=255, db_collation="C")
    account_id = models.UUIDField(db_index=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["kind", "value"], name="a_reference_has_one_account")]


class SignedDay(models.Model):
    """The last day of a cell that the audit signed off, and its digest, outside of the cell: one that is older lacks it."""

    cell = models.PositiveSmallIntegerField(primary_key=True)
    day = models.DateField()
    digest = models.CharField(max_length=64)
