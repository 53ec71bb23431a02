"""Replies with embeddings, as numbers or in base64."""

import base64
import sys
from array import array

import msgspec

from completions.chat import WholeReply
from completions.pricing.usage import Usage
from completions.relay.dispatch import Dispatch
from completions.relay.reply_format import WholeFormat
from gateway_project import large_work
from gateway_project.text import compact_json, dollars

_BYTES_PER_NUMBER = 8
_PAUSE_EMBEDDINGS = 32


class EmbeddingsFormat(WholeFormat):
    """Lists of embeddings. The id, by which the gateway knows the request, is not OpenAI's."""

    def whole(self, dispatch: Dispatch, received: WholeReply, usage: Usage, charged_nanos: int | None) -> bytes:
        inputs = dispatch.admitted.request.inputs
        assert inputs is not None
        with large_work.turn(sum(map(len, received.embeddings)) * _BYTES_PER_NUMBER) as pause:
            data = []
            for index, vector in enumerate(received.embeddings):
                # As JSON, numbers take less memory than a list of floats.
                written = _as_base64(vector) if inputs.as_base64 else msgspec.Raw(compact_json.dumps(vector.tolist()))
                data.append({"object": "embedding", "index": index, "embedding": written})
                if index % _PAUSE_EMBEDDINGS == 0:
                    pause()
            tokens = {"prompt_tokens": usage.prompt_tokens, "total_tokens": usage.prompt_tokens}
            return compact_json.dumps(
                {
                    "id": dispatch.admitted.completion.id,
                    "object": "list",
                    "data": data,
                    "model": dispatch.call.offer.model_id,
                    "usage": {**tokens, "cost": dollars.json_number(charged_nanos)},
                }
            )


def _as_base64(vector: "array[float]") -> str:
    """Return the numbers with 32 bits each, the lowest byte first, as OpenAI's clients read them."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()
