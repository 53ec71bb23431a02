from typing import Any

import pytest

from tests import factories
from tests.upstream import KEY_ENV, Upstream, upstream

__all__ = ["upstream"]


@pytest.fixture
def large(upstream: Upstream, db: None) -> Any:
    """A model that the scripted upstream serves: 3,000 nanodollars a prompt token (300 cached), 15,000 a generated one."""
    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url, api_key_env=KEY_ENV)
    return factories.make_model(
        "acme/large", provider=provider, input="3.00", output="15.00", cached_input="0.30", upstream_model="large-2026"
    )
