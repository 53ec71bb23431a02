import pytest

from tests import factories
from tests.upstream import KEY_ENV


@pytest.fixture
def sonnet(upstream, db):
    """A model at a scripted provider that speaks Messages itself."""
    provider = factories.make_provider(
        "claude", kind="anthropic", base_url=upstream.url.removesuffix("/v1"), api_key_env=KEY_ENV
    )
    return factories.make_model(
        "acme/sonnet",
        provider=provider,
        input="3.00",
        output="15.00",
        cached_input="0.30",
        upstream_model="claude-sonnet-4-5",
        function_calling=True,
        image_support=True,
    )
