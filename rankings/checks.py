"""System check of the formula's parameters, which come from several settings."""

from typing import Any

from django.core.checks import CheckMessage, Error, register

from gateway_project import environment
from rankings.scoring import parameters


@register(environment.CHECK_TAG)
def check_parameters(**kwargs: Any) -> list[CheckMessage]:
    """E010: the parameters contradict each other, so that no ranking can be computed."""
    try:
        parameters.in_force()
    except ValueError as error:
        message = f"The parameters of the rankings' formula contradict each other: {error}."
        return [Error(message, hint="See GATEWAY_RANKINGS_* in docs/rankings.md.", id="gateway.E010")]
    return []
