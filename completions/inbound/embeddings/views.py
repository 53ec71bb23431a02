"""POST /v1/embeddings."""

from collections.abc import Callable

from django.http.response import HttpResponseBase
from rest_framework.request import Request

from completions.chat import ChatRequest
from completions.inbound import descriptions
from completions.inbound.completion_view import CompletionView
from completions.inbound.embeddings import request as embeddings_request
from completions.inbound.embeddings.reply import EmbeddingsFormat
from completions.inbound.embeddings.serializers import EmbeddingList, EmbeddingRequest
from completions.request.fields import Fields

_DESCRIPTION = "Returns numbers for the meaning of one or more texts, by a model of the kind embedding. Its tokens are charged."


class EmbeddingsView(CompletionView):
    """One request for embeddings. It goes the way of every completion."""

    reply_format = EmbeddingsFormat()
    fingerprinted_path = "/v1/embeddings"
    syntax_max = embeddings_request.SYNTAX_MAX
    uncounted_syntax = b"0123456789"

    def read(self, fields: Fields, raw: bytes | None, pause: Callable[[], None]) -> ChatRequest:
        return embeddings_request.parse(fields, raw, pause)

    @descriptions.completion(
        "createEmbedding", "Create embeddings", _DESCRIPTION, request=EmbeddingRequest, reply=EmbeddingList
    )
    def post(self, request: Request) -> HttpResponseBase:
        return self.complete(request)
