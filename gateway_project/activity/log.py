"""Records acts. The caller's transaction holds the act and its record, so that neither is there without the other."""

from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from gateway_project.activity.models import Activity
from gateway_project.web.client_address import client_address

_TEXT_MAX = Activity._meta.get_field("object_text").max_length
Values = dict[str, Any]  # of fields, by name; what JSON does not know is recorded as text


def record(
    request: HttpRequest | None,
    act: Activity.Act,
    target: Model,
    summary: str,
    *,
    account_id: UUID | None = None,
    before: Values | None = None,
    after: Values | None = None,
    reason: str = "",
    ticket: str = "",
) -> None:
    """Record that the request's user, or its ``program``, did ``act`` to ``target``. It is None for an operator's command.

    Must run in the transaction of the act. ``before`` and ``after`` hold no secrets.
    """
    assert connection.in_atomic_block
    user = getattr(request, "user", None)  # of a request of the API an account
    Activity.objects.create(
        act=act,
        actor=user if isinstance(user, get_user_model()) else None,
        program=getattr(request, "program", ""),
        account_id=account_id,
        object_type=target._meta.label_lower,
        object_id=str(target.pk),
        object_text=str(target)[:_TEXT_MAX],
        summary=summary,
        before=_json(before),
        after=_json(after),
        reason=reason,
        ticket=ticket,
        request_id=getattr(request, "id", ""),
        address=(client_address(request) or None) if request else None,
    )


def _json(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, dict):
        return {name: _json(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, set, QuerySet)):
        return [_json(each) for each in value]
    return str(value)
