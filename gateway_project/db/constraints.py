"""CHECK constraints of models."""

from django.db.models import BaseConstraint, CheckConstraint, Q


def must_hold(**conditions: Q) -> list[BaseConstraint]:
    """Return a CHECK constraint for each condition. Its name is the sentence that the condition keeps true."""
    return [CheckConstraint(condition=condition, name=name) for name, condition in conditions.items()]
