"""What completions show of an account: the latest ones."""

from typing import Any

from django.db import connection
from django.http import HttpRequest

from billing.models import Account
from completions.models import Completion
from gateway_project import dollars
from gateway_project.desk.sections import Section

COMPLETIONS_SHOWN = 10

# One index seek for each key: the account's completions may be millions, and have no index that has their order.
_LATEST = """
SELECT latest.id FROM keys_apikey AS key CROSS JOIN LATERAL (
    SELECT id FROM completions_completion WHERE key_id = key.id ORDER BY id DESC LIMIT %(number)s
) AS latest WHERE key.account_id = %(account)s ORDER BY latest.id DESC LIMIT %(number)s
"""


def _latest(request: HttpRequest, account: Account) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute(_LATEST, {"account": account.pk, "number": COMPLETIONS_SHOWN})
        ids = [completion_id for (completion_id,) in cursor.fetchall()]
    found = Completion.objects.filter(pk__in=ids).select_related("key").order_by("-id")
    return {
        "completions": [
            {
                "completion": each,
                "state": each.get_settlement_display() if each.settlement else "running",
                "tokens": None if each.completion_tokens is None else (each.prompt_tokens or 0) + each.completion_tokens,
                "cost": "-" if each.cost_nanos is None else dollars.format_usd(each.cost_nanos),
            }
            for each in found
        ]
    }


SECTIONS = [
    Section(
        40,
        "completions",
        "Latest completions",
        "completions.view_completion",
        "admin/completions/account/completions.html",
        _latest,
    ),
]
