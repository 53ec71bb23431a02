"""Inserts stored items into a request: the conversation up to ``previous_response_id``, and items that it names by id.

``measure`` finds the stored responses and their size, ``Named.read`` reads them, and ``Found.resolve`` returns the body as if
the caller had sent all the items. The bounds of every body apply to it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
from django.conf import settings

from completions.charging import stored_responses
from completions.charging.stored_responses import Link
from completions.inbound.responses import keeping
from completions.models import StoredResponse
from completions.request.fields import Fields, check_members, check_string, read_required, refuse
from gateway_project import errors
from gateway_project.text import compact_json

PREVIOUS = "previous_response_id"
_ITEM_ID = re.compile(r"[a-z]+_([0-9a-f]{32})_([0-9]{1,6})")  # as ``output`` makes them, after the id of the response
_REFERENCE = {"id", "type"}  # the members of a reference, which needs no type


def names_any(body: Fields) -> bool:
    """Return whether a request names an earlier response or stored items."""
    return body.get(PREVIOUS) is not None or next(_references(body), None) is not None


@dataclass(frozen=True, slots=True)
class Named:
    """The responses that a request names: its conversation, the oldest first, and the responses of its single items."""

    account_id: UUID
    chain: list[Link]
    response_ids: set[str]
    size_bytes: int

    def read(self) -> "Found":
        """Read the stored responses. Nothing is decrypted yet."""
        chain = stored_responses.read([link.id for link in self.chain], self.account_id, "sealed_input", "sealed_output")
        return Found(self, chain, stored_responses.read(self.response_ids, self.account_id, "sealed_output"))


@dataclass(frozen=True, slots=True)
class Found:
    """The stored responses that a request names, by id."""

    named: Named
    chain: dict[str, StoredResponse]
    responses: dict[str, StoredResponse]

    def resolve(self, body: Fields) -> tuple[bytes, int]:
        """Return the whole body as JSON, and the number of earlier items before the caller's own. Raises an ApiError."""
        history = list[msgspec.Raw]()
        for link in self.named.chain:
            if (row := self.chain.get(link.id)) is None:  # it was deleted meanwhile
                raise _not_found(link.id)
            history += [*keeping.read_input(row), *keeping.read_output(row)]
        own = keeping.as_items(read_required(body, "input"))
        if not isinstance(own, list):
            refuse("input", "must be a string or an array of items")
        referable = {_read_id(item).id: item for row in self.responses.values() for item in keeping.read_output(row)}
        own = [_resolve_item(item, f"input[{index}]", referable) for index, item in enumerate(own)]
        written = compact_json.dumps({**body, "input": [*history, *own]})
        if len(written) > settings.REQUEST_BYTES_MAX:
            raise _too_large(self.named.chain)
        return written, len(history)


def measure(body: Fields, account_id: UUID) -> Named:
    """Find what a request names. Raises PreviousResponseNotFound, or InvalidRequest if it is too much for one request."""
    chain = _measure_chain(body, account_id)
    references = list(_references(body))
    if len(references) > settings.REQUEST_MESSAGES_MAX:
        refuse("input", f"must have at most {settings.REQUEST_MESSAGES_MAX} items")
    item_ids, response_ids = set[str](), set[str]()
    for path, item in references:
        check_members(item, _REFERENCE, path)
        item_id = check_string(item.get("id"), f"{path}.id")
        if item_id in item_ids:  # what is named once would become any number of bytes
            refuse(path, "must not refer to an item that another reference names")
        item_ids.add(item_id)
        if (found := _ITEM_ID.fullmatch(item_id)) is None:
            raise _item_not_found(item_id, path)
        response_ids.add(f"chatcmpl-{found[1]}")
    size_bytes = sum(link.sealed_bytes for link in chain)
    if response_ids:
        size_bytes += stored_responses.measure_outputs(response_ids, account_id)
    texts = 2 * len(chain) + len(response_ids)
    if (size_bytes - texts * stored_responses.SEAL_BYTES_MAX) * 3 // 4 > settings.REQUEST_BYTES_MAX:
        raise _too_large(chain)
    return Named(account_id, chain, response_ids, size_bytes)


def _measure_chain(body: Fields, account_id: UUID) -> list[Link]:
    if body.get(PREVIOUS) is None:
        return []
    named, length_max = check_string(body[PREVIOUS], PREVIOUS), settings.REQUEST_MESSAGES_MAX
    chain = stored_responses.read_chain(named, account_id, length_max=length_max + 1)
    if not chain:
        raise _not_found()
    if len(chain) > length_max:
        refuse(PREVIOUS, f"must continue from at most {length_max} responses")
    if chain[0].previous_id is not None:
        raise _not_found(chain[0].previous_id)
    return chain


def _not_found(missing: str | None = None) -> errors.PreviousResponseNotFound:
    """Return the refusal. ``missing`` is the id of a missing response, unless it is the one that the caller named."""
    why = f"continues from {missing!r}, which is deleted or has expired" if missing else "is unknown, deleted or has expired"
    return errors.PreviousResponseNotFound(f"{PREVIOUS} {why}. Send the whole conversation as input.", param=PREVIOUS)


def _too_large(chain: list[Link]) -> errors.InvalidRequest:
    bound = f"a conversation of more than {settings.REQUEST_BYTES_MAX} bytes: begin another one"
    if chain:
        return errors.wrong(PREVIOUS, f"leads to {bound}")
    return errors.wrong("input", f"names items of {bound}")


def _references(body: Fields) -> Iterator[tuple[str, Fields]]:
    items = body.get("input")
    if isinstance(items, list):
        yield from ((f"input[{index}]", item) for index, item in enumerate(items) if _is_reference(item))


def _is_reference(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    kind = item.get("type")
    return kind == "item_reference" or (kind is None and "id" in item and item.keys() <= _REFERENCE)


def _resolve_item(item: Any, path: str, referable: dict[str, msgspec.Raw]) -> Any:
    """Return an item itself, or the one that it refers to. ``referable`` has the items that it may name, by id."""
    if not _is_reference(item):
        return item
    if (found := referable.get(item["id"])) is None:
        raise _item_not_found(item["id"], path)
    return found


class _Identified(msgspec.Struct):
    id: str


_read_id = msgspec.json.Decoder(_Identified).decode


def _item_not_found(item_id: str, path: str) -> errors.InvalidRequest:
    problem = f"refers to {item_id[:100]!r}, which is no item of a stored response. Send the item itself, or store: true before"
    return errors.wrong(path, problem, quotes_request=True)
