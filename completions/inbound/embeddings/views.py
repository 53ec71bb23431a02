"""POST /v1/embeddings. Its reply has numbers, or base64."""

import base64
import sys
from array import array

import msgspec

from completions.chat import WholeReply
from completions.inbound import descriptions
from completions.inbound.completion_view import CompletionView
from completions.inbound.embeddings import request as embeddings_request
from completions.inbound.embeddings.serializers import EmbeddingList, EmbeddingRequest
from completions.pricing.usage import Usage
from completions.relay.reply_format import WholeFormat
from completions.relay.running import Running
from gateway_project import large_work
from gateway_project.text import compact_json, dollars

_BYTES_PER_NUMBER = 8
_PAUSE_EMBEDDINGS = 32
_DESCRIPTION = "Returns numbers for the meaning of one or more texts, by a model of the kind embedding. Its tokens are charged."


class EmbeddingsFormat(WholeFormat):
    """Lists of embeddings. The id, by which the gateway knows the request, is not OpenAI's."""

    def whole(self, running: Running, received: WholeReply, usage: Usage, charged_nanos: int | None) -> bytes:
        inputs = running.admitted.request.inputs
        assert inputs is not None
        with large_work.turn(sum(map(len, received.embeddings)) * _BYTES_PER_NUMBER) as pause:
            data = []
            for index, vector in enumerate(received.embeddings):
                # As JSON, numbers take less memory than a list of floats.
                written = _as_base64(vector) if inputs.as_base64 else msgspec.Raw(compact_json.dumps(vector.tolist()))
                data.append({"object": "embedding", "index": index, "embedding": written})
                if index % _PAUSE_EMBEDDINGS == 0:
                    pause()
            listed = {"id": running.admitted.completion.id, "object": "list", "data": data}
            tokens = {"prompt_tokens": usage.prompt_tokens, "total_tokens": usage.prompt_tokens}
            counted = {**tokens, "cost": dollars.json_number(charged_nanos)}
            return compact_json.dumps({**listed, "model": running.call.offer.model_id, "usage": counted})


def _as_base64(vector: "array[float]") -> str:
    """Return the numbers with 32 bits each, the lowest byte first, as OpenAI's clients read them."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()


@descriptions.completion("createEmbedding", "Create embeddings", _DESCRIPTION, request=EmbeddingRequest, reply=EmbeddingList)
class EmbeddingsView(CompletionView):
    """One request for embeddings. It goes the way of every completion."""

    reply_format = EmbeddingsFormat()
    fingerprinted_path = "/v1/embeddings"
    syntax_max = embeddings_request.SYNTAX_MAX
    uncounted_syntax = b"0123456789"
    read = staticmethod(embeddings_request.parse)
