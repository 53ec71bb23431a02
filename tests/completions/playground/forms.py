"""The form of the playground."""

from typing import Any

PATH = "/dashboard/playground/"
STREAM: Any = {"HTTP_ACCEPT": "text/event-stream"}


def form(account, **fields):
    return {"model": "demo/echo", "prompt": "one two three", "max_tokens": "50", "account": str(account.pk), **fields}


def playground_keys(account):
    return account.keys.filter(name="Playground").order_by("pk")
