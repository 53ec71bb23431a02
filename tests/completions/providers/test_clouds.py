"""What the clouds are sent, and how they answer, where that is not as at the maker of the model."""

import dataclasses

import msgspec
import pytest

from completions.chat import NO_RULES
from completions.providers import model_rules
from completions.providers.openai import request as openai_request
from completions.providers.openai.responses import request as responses_request
from tests.completions.offers import make_call, make_offer
from tests.completions.providers.chat_requests import make_request

AZURE, FOUNDRY = "https://acme.openai.azure.com/openai/v1", "https://acme.services.ai.azure.com/openai/v1"


def call(base_url, model, **fields):
    return make_call(make_request(**fields), make_offer(base_url=base_url, upstream_model=model), 50)


# --- Azure ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base_url", "model", "name"),
    [
        (AZURE, "gpt-5", "max_completion_tokens"),
        (AZURE, "ours", "max_completion_tokens"),
        (AZURE, "gpt-4o", "max_tokens"),
        (AZURE, "gpt-35-turbo", "max_tokens"),
        (FOUNDRY, "gpt-5.1", "max_completion_tokens"),
        (FOUNDRY, "grok-4", "max_tokens"),
        ("https://acme.cognitiveservices.azure.com/openai/v1", "o3", "max_completion_tokens"),
        ("https://notopenai.azure.com/openai/v1", "ours", "max_tokens"),
    ],
)
def test_the_limit_has_the_name_that_the_model_takes_at_azure(base_url, model, name):
    sent = openai_request.body(call(base_url, model, max_tokens=40), stream=False)
    assert {field: sent.get(field) for field in ("max_tokens", "max_completion_tokens") if field in sent} == {name: 50}


@pytest.mark.parametrize(("base_url", "model"), [(AZURE, "ours"), (FOUNDRY, "gpt-5")])
def test_azure_is_sent_what_openai_takes(base_url, model):
    asked = call(base_url, model, metadata={"a": "b"}, service_tier="flex", seed=1, strange=2, reasoning={"enabled": False})
    sent = openai_request.body(asked, stream=True)
    assert (sent["service_tier"], sent["stream_options"], sent["seed"]) == ("flex", {"include_usage": True}, 1)
    assert sent["reasoning_effort"] == "none" if model == "ours" else "minimal"
    assert not {"metadata", "strange", "reasoning"} & sent.keys()
    assert openai_request.ignored_fields(asked)[:2] == ["metadata", "strange"]
    stored = openai_request.body(call(base_url, model, metadata={"a": "b"}, store=True), stream=False)
    assert stored["metadata"] == {"a": "b"}
    assert "stream_options" not in responses_request.body(asked, stream=True)


def test_unknown_fields_pass_to_no_azure_but_to_other_models_of_foundry():
    for base_url, model, passes in ((AZURE, "ours", False), (FOUNDRY, "gpt-5", False), (FOUNDRY, "grok-4", True)):
        asked = call(base_url, model, strange=2)
        own = msgspec.structs.replace(asked, route=dataclasses.replace(asked.route, passes_unknown_fields=True))
        assert ("strange" in openai_request.body(own, stream=False)) == passes


@pytest.mark.parametrize("base_url", [AZURE, FOUNDRY, "https://acme.openai.azure.com/openai/deployments/{model}"])
def test_models_have_their_rules_at_azure(base_url):
    for name in ("gpt-5", "gpt-5.1-2025-11-13", "gpt-4.1-mini", "o3"):
        assert model_rules.of_route("openai", base_url, name) is model_rules.of_route("openai", "https://api.openai.com", name)
    assert model_rules.of_route("openai", base_url, "ours") is NO_RULES
    assert model_rules.of_route("openai", "https://openai.azure.com.example", "gpt-5") is NO_RULES
