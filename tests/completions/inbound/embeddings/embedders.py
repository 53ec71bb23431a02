"""A model of embeddings."""

import json
from typing import Any

from tests import factories
from tests.upstream import KEY_ENV, reply

USAGE = {"prompt_tokens": 7, "total_tokens": 7}


def found(*vectors: list[float] | str, usage: Any = USAGE, **fields: Any) -> list[Any]:
    """Return the script of a reply as OpenAI sends it."""
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    body = {"object": "list", "data": data, "model": "upstream-name", **({"usage": usage} if usage else {}), **fields}
    return reply(json.dumps(body).encode())


def make_embedder(slug: str, kind: str, url: str) -> Any:
    provider = factories.make_provider(slug, kind=kind, base_url=url, api_key_env=KEY_ENV)
    return factories.make_model(
        "acme/embed", provider=provider, kind="embedding", input="0.02", output="0", max_output_tokens=1, upstream_model="e-3"
    )
