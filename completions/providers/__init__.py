"""Providers: an adapter for each wire format. ``ADAPTERS`` maps the kind of a route to its adapter: the kind of its provider,
or that with the name of one of the provider's APIs, such as ``openai-embeddings`` (``completions.models.Route.adapter``).

Owns everything that depends on a provider's wire format. Imports ``completions.request``, ``completions.pricing``,
``completions.chat`` and ``gateway_project``; knows nothing of routes, holds and the database.

base            Adapter, ProviderFailed, and the errors that the caller sees
adapters        the adapters of chat, one for each wire format
embeddings      the adapters of embeddings
http_adapter    an Adapter that asks over HTTP
access          a folder: where a request to a provider goes, with which headers and which credential
exchange        one HTTP request to a provider: deadlines, and failures in one form; used by all adapters
reading         a whole response, or events of a stream: heartbeats, bounds, what is forgiven; used by all adapters
error_body      what a provider says about an error, in any of its shapes
error_meanings  what errors mean: refusals of content, prompts that are too long, refusals of our API key, in everybody's words
masking         masks keys, hosts, accounts and the provider's names of models in what it says
call_ids        ties results to their calls, and makes ids that a provider takes
custom_tools    custom tools as functions, for providers that have none
sealed_reasoning  what a provider needs back of its model's reasoning, sealed into the reply with its place there
ignored_fields  which fields of a request a provider is not sent, for a header of the reply
model_rules     what each generation of models takes, and refuses
finish_reasons  why a model stopped, in the words of each provider
translated_streams  what the streams of the formats other than OpenAI's chat have in common
whole_replies   a whole reply of the chunks of a stream, and the other way round
sse             the framing of event streams, in and out
wire            what the formats have in common: JSON, token counts, sizes of text, chunks
reported_usage  how providers spell their counts, and what these mean, by host
served_tiers    which service tier served, in the words of each provider
echo            a provider without a network, for development and tests
openai, anthropic, gemini  a folder each, with the same modules and names: request (``check``, ``body``); messages;
           response (``parse_reply``, ``StreamReader``). OpenAI has a second API, in ``openai.responses``

``docs/providers/adapters.md`` tells how to add a provider that speaks another format.
"""

from completions.chat import Call
from completions.providers.adapters import AnthropicAdapter, GeminiAdapter, OpenAIAdapter, OpenAIResponsesAdapter
from completions.providers.base import Adapter
from completions.providers.echo import EchoAdapter, EchoEmbeddings
from completions.providers.embeddings import GeminiEmbeddings, NoEmbeddings, OpenAIEmbeddings

ADAPTERS: dict[str, Adapter] = {
    "openai": OpenAIAdapter(),
    "openai-responses": OpenAIResponsesAdapter(),
    "anthropic": AnthropicAdapter(),
    "gemini": GeminiAdapter(),
    "echo": EchoAdapter(),
    "openai-embeddings": OpenAIEmbeddings(),
    "anthropic-embeddings": NoEmbeddings(),
    "gemini-embeddings": GeminiEmbeddings(),
    "echo-embeddings": EchoEmbeddings(),
}


def unsent_fields(call: Call) -> list[str]:
    """Return the request's fields that its provider is not sent, and that the gateway does not honour itself."""
    return ADAPTERS[call.route.kind].ignored_fields(call)
