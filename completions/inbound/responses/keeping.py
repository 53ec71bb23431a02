"""Builds and reads the stored parts of a response: its input, its output, and the reply without its output."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any
from uuid import UUID

import msgspec
from django.conf import settings

from billing.models import Account
from completions.charging import stored_responses
from completions.charging.stored_responses import ResponseRecord
from completions.inbound.events import as_json
from completions.models import StoredResponse
from completions.request.fields import Fields
from gateway_project import errors
from gateway_project.db import newest_first
from gateway_project.text import compact_json, timestamps

_EXPORTED_AT_ONCE = 10  # each may have megabytes
_ENCRYPTED = "encrypted_content"  # of an item of reasoning


@dataclass(frozen=True, slots=True)
class Keeping:
    """The input of a response that is to be stored, sealed, and the id of the response that it continues from."""

    previous_id: str | None
    sealed_input: str
    input_bytes: int
    is_background: bool

    def record(self, account_id: UUID, output: list[Fields], response: Fields, *, shows_sealed: bool) -> ResponseRecord | None:
        """Return what is to be stored; None if it is too large. ``shows_sealed``: the reply has what is sealed of reasoning."""
        items = as_json(output)
        reply = as_reply(response, shows_sealed=shows_sealed)
        if self.input_bytes + len(items) + len(reply) > settings.STORED_RESPONSE_BYTES_MAX:
            return None
        return stored_responses.build_record(
            account_id,
            self.previous_id,
            sealed_input=self.sealed_input,
            output=items,
            reply=reply,
            is_background=self.is_background,
        )


def keep(account_id: UUID, items: Any, previous_id: str | None, *, is_background: bool) -> Keeping | None:
    """Return the input of a response to be stored; None if it is too large."""
    written = compact_json.dumps(as_items(items))
    if len(written) > settings.STORED_RESPONSE_BYTES_MAX:
        return None
    return Keeping(previous_id, stored_responses.seal(account_id, written), len(written), is_background)


def as_items(given: Any) -> Any:
    """Return an input as items: a text as a message of the user."""
    if not isinstance(given, str):
        return given
    return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": given}]}]


def as_reply(response: Fields, *, shows_sealed: bool = False) -> bytes:
    """Return a reply without its output, for ``read_reply``."""
    return as_json({"response": {**response, "output": []}, "shows_sealed": shows_sealed})


class _Reply(msgspec.Struct):
    """A stored reply. Its fields stay JSON, so that numbers keep every digit."""

    response: dict[str, msgspec.Raw]
    shows_sealed: bool = False


_read_reply = msgspec.json.Decoder(_Reply).decode
_read_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


def read_reply(row: StoredResponse) -> tuple[dict[str, Any], bool]:
    """Return a reply without its output, and whether that had what is sealed of reasoning. Raises ReplyUnreadable."""
    reply = _read_reply(stored_responses.unseal(row.account_id, row.sealed_reply))
    return reply.response, reply.shows_sealed


def read_input(row: StoredResponse) -> list[msgspec.Raw]:
    """Return the items of an input, each as JSON. Raises ReplyUnreadable."""
    return _read_items(stored_responses.unseal(row.account_id, row.sealed_input))


def read_output(row: StoredResponse) -> list[msgspec.Raw]:
    """Return the items of an output, each as JSON, with what is sealed of reasoning. Raises ReplyUnreadable."""
    return _read_items(stored_responses.unseal(row.account_id, row.sealed_output))


def without_sealed(item: msgspec.Raw) -> Any:
    """Return an item of an output as callers get it that did not ask for what is sealed."""
    if _ENCRYPTED.encode() not in bytes(item):
        return item
    fields = msgspec.json.decode(item)
    return {name: value for name, value in fields.items() if name != _ENCRYPTED} if fields["type"] == "reasoning" else item


def read_all(account: Account) -> Iterator[dict[str, Any]]:
    """Return the account's stored responses, the newest first, for the export of its data."""
    rows = stored_responses.of_account(account.pk).select_related("completion").order_by("-pk")
    for row in chain.from_iterable(newest_first.read_batches(rows, _EXPORTED_AT_ONCE)):
        yield {
            "id": row.pk,
            "createdAt": timestamps.iso_millis(row.completion.created_at),
            "expiresAt": timestamps.iso_millis(row.expires_at),
            "model": row.completion.model_id,
            "previousResponseId": row.previous_id,
            **_read_texts(row),
        }


def _read_texts(row: StoredResponse) -> dict[str, Any]:
    """Return input and output; None if the row has none yet, or can no longer be decrypted."""
    try:
        texts = {"input": read_input(row), "output": [without_sealed(item) for item in read_output(row)]}
    except errors.ReplyUnreadable:
        return {"input": None, "output": None}
    return {name: msgspec.json.decode(msgspec.json.encode(items)) for name, items in texts.items()}
