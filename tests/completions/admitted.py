"""Completions that were admitted, and the end of their time."""

import threading
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models.functions import Now

from billing.models import Hold
from completions.catalog import lookup
from completions.charging import admission
from completions.request import schema
from keys.authentication import Caller
from keys.budgets import runs
from keys.models import ApiKey


def admit(key: ApiKey, run: runs.AskedRun | None = None) -> admission.Admitted:
    """Admit a request, of a run, without resolving it, like a process that dies right after admission."""
    fields = {"model": "demo/echo", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 100}
    caller = Caller(key_id=key.pk, account_id=key.account_id)
    admitted = admission.admit(admission.prepare(schema.parse(fields), [lookup.find_offer("demo/echo")], caller, run=run))
    assert isinstance(admitted, admission.Admitted)
    return admitted


def expire(*admitted: admission.Admitted) -> None:
    references = [each.completion.id for each in admitted]
    Hold.objects.filter(pk__in=references).update(expires_at=Now() - timedelta(seconds=1))


def at_once(*calls: Any) -> list[Any]:
    """Make the calls at the same moment, each in a thread of its own. Return their results."""
    results: list[Any] = [None] * len(calls)
    gate = threading.Barrier(len(calls))

    def run(place: int) -> None:
        try:
            gate.wait()
            results[place] = calls[place]()
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[place]) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
