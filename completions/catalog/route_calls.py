"""Calls a route by hand: one short request, past admission, circuits and retries. No account is charged."""

import math
import time
from dataclasses import dataclass, field

from completions import providers
from completions.catalog import lookup
from completions.chat import Call, ChatRequest, Contents, Inputs, RequestBody, WholeReply
from completions.models import ModelKind, Price, Route
from completions.pricing.usage import Usage
from completions.providers.base import Adapter, FailureKind, ProviderFailed
from completions.request import schema
from gateway_project import errors, secretbox
from gateway_project.db import pool
from gateway_project.text import dollars

WORDS = "Say hello in one word."
_TOKENS_MAX = 32
_SECONDS_MAX = 30
_TEXT_MAX = 500


@dataclass(frozen=True)
class Outcome:
    """How a call ended. ``failure`` is empty when the provider answered; ``facts`` are shown, by name."""

    milliseconds: int
    failure: str = ""
    status: int | None = None  # of a failure, if the provider sent one; NO_CREDENTIAL if it was not asked without one
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> str:
        return f"{self.milliseconds / 1000:.2f} s"


def call(route: Route) -> Outcome:
    """Ask the provider once, also where the route or the provider is disabled. Holds no database connection meanwhile."""
    try:
        asked = _call_of(route)
    except secretbox.Unreadable:
        return Outcome(0, "its stored key cannot be decrypted")
    if asked.route.target.credential and not route.provider.has_key:  # never that of this host instead
        return Outcome(0, f"it has no key: {route.provider.api_key_env} is not set")
    pool.release_connection()
    began = time.monotonic()
    try:
        adapter = providers.ADAPTERS[asked.route.kind]
        adapter.check(asked.request)
        reply = _complete(adapter, asked)
    except ProviderFailed as failure:
        words, facts = failure.reason or failure.error.message, {"Status": str(failure.status or "none")}
        status = failure.key_refusal[0] if failure.key_refusal else failure.status
        return Outcome(_since(began), words, status, facts)
    except errors.ApiError as refusal:
        return Outcome(_since(began), refusal.message)
    return Outcome(_since(began), facts=_facts(asked, reply))


def _complete(adapter: Adapter, asked: Call) -> WholeReply:
    """Return the reply. A credential that was refused, and has a successor, is replaced once."""
    try:
        return adapter.complete(asked)
    except ProviderFailed as failure:
        if failure.kind is not FailureKind.CREDENTIAL_RENEWED:
            raise
        return adapter.complete(asked)


def _call_of(route: Route) -> Call:
    model, price = route.model, route.model.prices.at() or Price(rates=[])
    offer, is_embedding = lookup.offer_of(model, price, [route]), model.kind == ModelKind.EMBEDDING
    message = {"role": "user", "content": WORDS}
    fields = {"model": model.pk, "messages": [message], "max_tokens": _TOKENS_MAX}
    request = _embedding_request(model.pk) if is_embedding else schema.parse(fields)
    tokens = min(_TOKENS_MAX, model.max_output_tokens)
    return Call(request, offer, offer.routes[0], 0 if is_embedding else tokens, time.monotonic() + _SECONDS_MAX)


def _embedding_request(model_id: str) -> ChatRequest:
    fields = {"model": model_id, "input": WORDS}
    return ChatRequest(
        model=model_id,
        body=RequestBody(fields),
        max_tokens=0,
        stream=False,
        include_usage=False,
        prompt_tokens_max=len(WORDS),
        contents=Contents(text_bytes=len(WORDS)),
        inputs=Inputs(number=1, is_single=True),
    )


def _facts(asked: Call, reply: WholeReply) -> dict[str, str]:
    facts = {"Reply": _text(reply), "The provider's request id": asked.head.request_id or "none"}
    if isinstance(reply.usage, Usage):
        facts["Tokens"] = f"{reply.usage.prompt_tokens:,} of input, {reply.usage.completion_tokens:,} of output"
        nanos = asked.offer.price.cost_nanos(reply.usage)
        facts["What a caller would pay"] = dollars.format_usd(nanos)
    else:
        facts["Tokens"] = "it did not say: usage would be estimated"
    return facts


def _text(reply: WholeReply) -> str:
    if reply.embeddings:
        return f"an embedding of {len(reply.embeddings[0]):,} numbers"
    content = (reply.choices[0].get("message") or {}).get("content") if reply.choices else None
    return str(content)[:_TEXT_MAX] if content else "no text"


def _since(began: float) -> int:
    return math.ceil((time.monotonic() - began) * 1000)
