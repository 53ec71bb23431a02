"""Finds the fields of a request that a provider is not sent, and names them in a header of the reply. Pure."""

import re
from collections.abc import Collection, Sequence, Set

from completions.chat import ChatRequest
from completions.request.serving import USUAL_TIERS

# Honoured by the gateway and by every kind of provider. ``n`` and ``modalities`` are refused where more is asked than there is.
# Adapters name ``reasoning`` where a model cannot honour it.
HONOURED = frozenset(
    (
        *("max_completion_tokens", "max_tokens", "messages", "modalities", "model", "models", "n", "provider", "reasoning"),
        *("stream", "stream_options", "usage"),
    )
)

_NAMES_MAX = 20
_NAME = re.compile(r"[A-Za-z0-9_.$-]{1,64}")  # names are the caller's own: others could be anything


def find(
    request: ChatRequest, sent: Set[str], sent_in_messages: Collection[str] | None = None, sent_in_blocks: Collection[str] = ()
) -> list[str]:
    """Return the fields of the request that are not among those sent, in its order; then those of messages.

    ``sent_in_messages``: the fields beside role and content that are sent with a message; None for all. ``sent_in_blocks``:
    those of Anthropic's blocks that are sent in some form, of ``ChatRequest.block_fields``.
    """
    fields = request.fields
    ignored = []
    if not fields.keys() <= sent:
        ignored = [
            name
            for name, value in fields.items()
            if name not in sent and value is not None and not (name == "service_tier" and value in USUAL_TIERS)
        ]
    if request.contents.message_fields and sent_in_messages is not None:
        ignored += [f"messages.{name}" for name in sorted(request.contents.message_fields.difference(sent_in_messages))]
    if request.reasoning.unheeded:
        ignored += request.reasoning.unheeded
    if request.block_fields:
        ignored += sorted(name for name in request.block_fields if name.rpartition(".")[2] not in sent_in_blocks)
    return ignored + [f"anthropic-beta.{beta}" for beta in request.betas] if request.betas else ignored


def header_value(names: Sequence[str]) -> str:
    """Return the names as a list of bounded length. A name that is too long or has unusual characters is only hinted at."""
    shown = [name for name in names[:_NAMES_MAX] if _NAME.fullmatch(name)]
    return ", ".join(shown if len(shown) == len(names) else [*shown, "..."])
