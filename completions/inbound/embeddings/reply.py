"""Replies with embeddings, as numbers or in base64."""

import base64
import sys
from array import array

from completions.chat import Usage, WholeReply
from completions.relay.attempts import Dispatch
from completions.relay.reply_format import WholeFormat, cost_number
from gateway_project import compact_json, large_work


class EmbeddingsFormat(WholeFormat):
    """Lists of embeddings. The id, by which the gateway knows the request, is not OpenAI's."""

    def whole(self, dispatch: Dispatch, received: WholeReply, usage: Usage, charged_nanos: int | None) -> bytes:
        inputs = dispatch.admitted.request.inputs
        assert inputs is not None
        with large_work.turn(sum(map(len, received.embeddings)) * 4):
            vectors = list(map(_as_base64, received.embeddings)) if inputs.as_base64 else received.embeddings
            data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
            tokens = {"prompt_tokens": usage.prompt_tokens, "total_tokens": usage.prompt_tokens}
            return compact_json.dumps(
                {
                    "id": dispatch.admitted.completion.id,
                    "object": "list",
                    "data": data,
                    "model": dispatch.call.offer.model_id,
                    "usage": {**tokens, "cost": cost_number(charged_nanos)},
                }
            )


def _as_base64(vector: list[float]) -> str:
    """Return the numbers with 32 bits each, the lowest byte first, as OpenAI's clients read them."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()
