"""What the clouds are sent, and how they answer, where that is not as at the maker of the model."""

import dataclasses

import msgspec
import pytest

from completions.chat import NO_RULES
from completions.inbound.messages import request as messages
from completions.providers import model_rules
from completions.providers.access import platforms
from completions.providers.adapters import AnthropicAdapter
from completions.providers.anthropic import untranslated
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


# --- Claude at the clouds ---------------------------------------------------------------------------------------------

BETAS = "claude-code-20250219,interleaved-thinking-2025-05-14,structured-outputs-2025-11-13,advanced-tool-use-2025-11-20"
STRICT = {"type": "function", "function": {"name": "f", "strict": True}}


def claude(platform, request):
    """Return the body, the betas and the fields that are not sent."""
    offer = make_offer("anthropic", "claude-haiku-4-5", access={"platform": platform})
    call, adapter = make_call(request, offer, 50), AnthropicAdapter()
    return adapter.body(call, stream=False), untranslated.headers(call).get("anthropic-beta"), adapter.ignored_fields(call)


def in_messages(betas="", **fields):
    turn = {"role": "user", "content": "Hi"}
    return messages.parse({"model": "acme/m", "max_tokens": 50, "messages": [turn], **fields}, betas=betas)


@pytest.mark.parametrize(
    ("platform", "sent", "ignored"),
    [
        ("azure", BETAS, ""),
        (
            "vertex",
            "interleaved-thinking-2025-05-14,tool-search-tool-2025-10-19",
            "claude-code-20250219, structured-outputs-2025-11-13",
        ),
        ("bedrock", BETAS.replace("advanced-tool-use-2025-11-20", "tool-search-tool-2025-10-19"), ""),
        ("bedrock-mantle", BETAS.replace("advanced-tool-use-2025-11-20", "tool-search-tool-2025-10-19"), ""),
    ],
)
def test_a_cloud_gets_the_betas_that_it_takes(platform, sent, ignored):
    _, betas, left_out = claude(platform, in_messages(BETAS)[0])
    assert (betas, ", ".join(left_out)) == (
        sent,
        ignored and ", ".join(f"anthropic-beta.{name}" for name in ignored.split(", ")),
    )
    computer = [{"type": "computer_20251124", "name": "computer", "display_width_px": 9, "display_height_px": 9}]
    assert claude(platform, in_messages(tools=computer)[0])[1] == "computer-use-2025-11-24"


@pytest.mark.parametrize(("platform", "keeps_strict", "keeps_user"), [("vertex", 1, 1), ("bedrock", 0, 0), ("azure", 0, 1)])
def test_what_a_cloud_refuses_is_left_out_in_both_languages(platform, keeps_strict, keeps_user):
    gone = [*([] if keeps_strict else ["tools.function.strict"]), *([] if keeps_user else ["metadata"])]
    tool = {"name": "f", "input_schema": {"type": "object"}, "strict": True}
    request, places = in_messages(tools=[tool], metadata={"user_id": '{"device_id":"1"}'})
    sent, _, ignored = claude(platform, request)
    assert ignored == gone
    assert [places.rename(name) for name in ignored] == [name.replace(".function", "") for name in gone]
    assert (sent["tools"][0].get("strict", False), "metadata" in sent) == (bool(keeps_strict), bool(keeps_user))
    sent, _, ignored = claude(platform, make_request(tools=[STRICT], metadata={"user_id": "u", "a": "b"}, user="v"))
    assert sorted(ignored) == sorted({*gone, "metadata", "user"})
    assert (sent["tools"][0].get("strict", False), "metadata" in sent) == (bool(keeps_strict), bool(keeps_user))


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://bedrock-runtime.us-east-1.amazonaws.com/anthropic", "bedrock"),
        ("https://bedrock-mantle.us-east-1.api.aws/anthropic", "bedrock-mantle"),
        ("https://acme.services.ai.azure.com/anthropic", "azure"),
        ("https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/anthropic", "vertex"),
        ("https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/publishers/anthropic", "vertex"),
        ("https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google", "vertex"),
        ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/openai/v1", "bedrock"),
        ("https://vpce-0a1.bedrock-runtime.us-east-1.vpce.amazonaws.com/openai/v1", "bedrock"),
        ("https://acme.openai.azure.com/openai/v1", "azure"),
    ],
)
def test_a_cloud_is_known_by_its_host(address, name):
    assert platforms.find(address) is platforms.PLATFORMS[name]
    assert platforms.find("https://proxy.example.org", name) is platforms.PLATFORMS[name]
    assert all(platform.source.startswith("https://") for platform in platforms.PLATFORMS.values())


@pytest.mark.parametrize(
    "host",
    [
        "generativelanguage.googleapis.com",
        "models-1.us-east-1.elb.amazonaws.com",
        "bedrock-runtime.example.org",
        "openai.azure.com.example.org",
        "storage.googleapis.com",
        "",
    ],
)
def test_other_hosts_are_no_cloud(host):
    assert platforms.find(f"https://{host}/v1") is platforms.NONE
