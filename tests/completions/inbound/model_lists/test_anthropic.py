"""GET /v1/models as Anthropic's SDKs read it."""

from typing import Any

import pytest

from tests import factories

VERSION = {"anthropic-version": "2023-06-01"}


@pytest.fixture
def models(db):
    provider = factories.make_provider("echo", kind="echo")
    for letter in "abc":
        factories.make_model(f"demo/{letter}", name=letter.upper(), provider=provider)


def listed(api: Any, **parameters: Any) -> tuple[list[str], bool]:
    reply = api.get("/v1/models", parameters, headers=VERSION)
    assert reply.status_code == 200
    body = reply.json()
    ids = [model["id"] for model in body["data"]]
    assert (body["first_id"], body["last_id"]) == ((ids[0], ids[-1]) if ids else (None, None))
    return ids, body["has_more"]


def test_models_have_anthropics_shape(api, models):
    model = api.get("/v1/models", headers=VERSION).json()["data"][0]
    assert model.pop("created_at").endswith("Z")
    assert model == {
        "type": "model",
        "id": "demo/a",
        "display_name": "A",
        "lifecycle": "active",
        "max_input_tokens": 128_000,
        "max_tokens": 4_096,
    }
    assert api.get("/v1/models").json()["object"] == "list", "without the header it is OpenAI's"
    [listed, *_] = api.get("/v1/models", headers=VERSION).json()["data"]
    assert api.get("/v1/models/demo/a", headers=VERSION).json() == listed


def test_pages_go_on_in_both_directions(api, models):
    assert listed(api) == (["demo/a", "demo/b", "demo/c"], False)
    assert listed(api, limit=2) == (["demo/a", "demo/b"], True)
    assert listed(api, limit=2, after_id="demo/b") == (["demo/c"], False)
    assert listed(api, limit=1, before_id="demo/c") == (["demo/b"], True)
    assert listed(api, limit=1, before_id="demo/b") == (["demo/a"], False)
    assert listed(api, after_id="demo/c") == ([], False)


@pytest.mark.parametrize(
    "parameters", [{"limit": 0}, {"limit": 1_001}, {"limit": "x"}, {"limit": ""}, {"after_id": "x"}, {"before_id": ""}]
)
def test_a_wrong_parameter_is_named(api, models, parameters):
    reply = api.get("/v1/models", parameters, headers=VERSION)
    [name] = parameters
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, name)
