"""Requests for a completion in tests, and the tables that one may write."""

import json
import re
from typing import Any, cast

from rest_framework.test import APIClient

from billing.models import Account, Hold, LedgerEntry
from completions.models import Completion
from keys.models import ApiKey, BudgetMonth, Run, SpendingDay

PATH = "/v1/chat/completions"
WRITTEN: tuple[Any, ...] = (LedgerEntry, Hold, Completion, SpendingDay, Account, ApiKey, Run, BudgetMonth)


def body(**fields: Any) -> bytes:
    """Return a valid body, with ``fields`` changed."""
    valid = {"model": "demo/echo", "messages": [{"role": "user", "content": "one two three"}]}
    return json.dumps({**valid, **fields}).encode()


def ask(client: APIClient, **fields: Any) -> Any:
    return send(client, body(**fields))


def send(client: APIClient, raw: bytes, content_type: str = "application/json", **extra: Any) -> Any:
    """POST these bytes unchanged."""
    return client.generic("POST", PATH, cast(Any, raw), content_type=content_type, **extra)


def events(reply: Any) -> list[Any]:
    """Return the parsed data of a stream's events; "[DONE]" stays text."""
    frames = reply.getvalue().decode().split("\n\n")
    assert frames.pop() == ""
    data = [frame.removeprefix("data: ") for frame in frames]
    return [item if item == "[DONE]" else json.loads(item) for item in data]


def prompt_bytes(messages: list[dict[str, Any]]) -> int:
    """Return the tokens that the documentation promises to hold for messages of text and images, without those of images."""
    contents = [message["content"] for message in messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    texts = [content for content in contents if isinstance(content, str)] + [part.get("text", "") for part in parts]
    return 24 + 20 * len(messages) + 8 * len(parts) + sum(len(text.encode()) for text in texts)


def everything_written() -> dict[str, list[dict[str, Any]]]:
    """Return all rows of all tables that a completion may write."""
    return {table.__name__: list(table.objects.order_by("pk").values()) for table in WRITTEN}


def assert_error(reply: Any, status: int, code: str, param: str | None = None) -> dict[str, Any]:
    """Assert that the reply is this refusal, in the shape of all errors. Return the error object."""
    assert reply.status_code == status, reply.content
    assert reply["content-type"] == "application/json"
    assert reply["x-request-id"].startswith("req_")
    assert "set-cookie" not in reply
    assert list(reply.json()) == ["error"]
    error = reply.json()["error"]
    further = set(error) - {"message", "type", "code", "param"}
    of_money = {"limit_source", "held", "held_since"} if "limit_source" in error else set()
    if (source := error.get("limit_source")) in ("run", "budget"):
        of_money |= {f"{source}_id", "budget", "left"}
    of_code = {"model_not_found": {"reason"}, "data_demand_unmet": {"demands", "routes"}}
    assert further - {"resets_at"} == of_code.get(code, of_money)
    assert "limit_source" in error or code not in ("insufficient_quota", "budget_exceeded")
    assert error["message"].endswith((".", "?")), error["message"]
    assert not error["message"].endswith(".."), error["message"]
    assert (error["code"], error["param"]) == (code, param)
    return error


def reasoning(text: str, form: str = "unknown", index: int = 0) -> dict[str, Any]:
    """Return the members of a message, or of a delta, that show what a model reasoned."""
    detail = {"type": "reasoning.text", "text": text, "format": form, "index": index}
    return {"reasoning_content": text, "reasoning": text, "reasoning_details": [detail]}


TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
