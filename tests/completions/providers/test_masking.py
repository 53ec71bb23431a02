"""What callers are told in a provider's words is without our keys, its hosts, our accounts there and its names of models."""

import html
import json
import time
from urllib.parse import quote

import pytest

from completions.providers import masking
from tests.completions.rows import ask, assert_released
from tests.upstream import KEY, ROLE, event, reply, stream

MODEL = "acme/large"


def told(text, *, base_url="https://eu.api.acme-ai.com/v1", upstream_model="large-2026", api_key="sk-proj-abcdef1234567890"):
    masked = masking.mask_keys(text, api_key)
    return masking.mask_origin(masked, base_url=base_url, upstream_model=upstream_model, model_id=MODEL)


# What the provider says -> what callers are told.
WORDS = {
    "the address": ("See https://eu.api.acme-ai.com/v1/chat/completions?x=1 for it", "See *** for it"),
    "the host": ("eu.api.acme-ai.com: bad gateway", "***: bad gateway"),
    "the host in capitals, with a port": ("HTTPS://EU.API.ACME-AI.COM:8443/v1 refused", "*** refused"),
    "a sister": ("Visit https://platform.acme-ai.com/account/limits.", "Visit ***"),
    "the domain": ("ask help@acme-ai.com", "ask help@***"),
    "another's host": ("https://example.com/cat.png cannot be loaded", "https://example.com/cat.png cannot be loaded"),
    "a host that only begins alike": ("acme-ai.community is", "acme-ai.community is"),
    "an address": ("upstream connect error: http://10.1.2.3:8000/v1/models", "upstream connect error: ***"),
    "a bare address": ("dial 10.1.2.3:8000 failed", "dial *** failed"),
    "an internal host": ("no route to vllm-3.prod.svc.cluster.local:8000", "no route to ***"),
    "localhost": ("http://localhost:11434/api failed", "*** failed"),
    "the model": ("The model large-2026 has no vision", "The model acme/large has no vision"),
    "the model in quotes": ("`Large-2026` has no vision.", "`acme/large` has no vision."),
    "the model at an end": ("Unknown field for large-2026.", "Unknown field for acme/large."),
    "the model with a path": ("models/large-2026 is not a chat model", "acme/large is not a chat model"),
    "the model with its day": ("large-2026-08-06 takes no temperature", "acme/large takes no temperature"),
    "another model": ("use large-2026-mini", "use large-2026-mini"),
    "a longer number": ("large-20261", "large-20261"),
    "our key": ("Bad key sk-proj-abcdef1234567890.", "Bad key ***."),
    "our key in capitals": ("Bad key SK-PROJ-ABCDEF1234567890.", "Bad key ***."),
    "a part of our key": ("Incorrect API key provided: sk-proj-********7890.", "Incorrect API key provided: ***."),
    "stars in the middle": ("sk-abc***xyz is wrong", "*** is wrong"),
    "dots in the middle": ("key sk-proj-...7890 is wrong", "key *** is wrong"),
    "another key": ("key gsk_abcdefghij0123456789 is wrong", "key *** is wrong"),
    "Google's key": ("API key AIzaSyA1234567890abcd not valid", "API key *** not valid"),
    "a bearer": ("Authorization: Bearer abcdef12345678", "Authorization: ***"),
    "an organization": ("in organization org-AbC123dEf456gHi on tokens", "in organization *** on tokens"),
    "an organization of Groq": ("organization `org_01htyz7q9xe8` service", "organization `***` service"),
    "a project": ("Project `proj_AbC123dEf456` has no access", "Project `***` has no access"),
    "a project of Google": ("in projects/my-project-1/locations/us: no", "in projects/***/locations/us: no"),
    "a project's number": ("project 123456789012 has no quota", "project *** has no quota"),
    "a team of xAI": ("Team: 8f14e45f-ceea-467f-9575-3f6a0f1b2c3d, no", "Team: ***, no"),
    "Azure's deployment": ("/openai/deployments/gpt-prod-1/chat: no", "/openai/deployments/***/chat: no"),
    "Amazon's names": ("arn:aws:bedrock:us-east-1:123456789012:inference-profile/x is", "*** is"),
    "a number of tokens": ("This project has 12345 tokens", "This project has 12345 tokens"),
    "the caller's words": ("messages[0].content: 'organized by team'", "messages[0].content: 'organized by team'"),
}


ODD_KEY = 'own-"quotes"\'+and/signs=&<1>'
FORMS = {
    "plain": ODD_KEY,
    "JSON": json.dumps(ODD_KEY)[1:-1],
    "JSON of PHP": json.dumps(ODD_KEY)[1:-1].replace("/", "\\/"),
    "Python": repr(ODD_KEY)[1:-1],
    "HTML": html.escape(ODD_KEY),
    "an address": quote(ODD_KEY, safe=""),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_a_key_with_signs_is_masked_however_it_is_escaped(form):
    assert told(f"Bad key {form}.", api_key=ODD_KEY) == "Bad key ***."


@pytest.mark.parametrize(("said", "expected"), WORDS.values(), ids=WORDS.keys())
def test_words_are_masked(said, expected):
    assert told(said) == expected


NAMES = {
    "Fireworks": ("accounts/fireworks/models/llama-v3p1-8b", "llama-v3p1-8b and accounts/fireworks/models/llama-v3p1-8b"),
    "Bedrock": ("us.anthropic.claude-x-4-20250514-v1:0", "anthropic.claude-x-4-20250514-v1:0 and claude-x-4-20250514"),
    "Vertex": ("claude-x-4@20250514", "claude-x-4@20250514 and publishers/anthropic/models/claude-x-4"),
    "Hugging Face": ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B and llama-3.1-8b"),
}


@pytest.mark.parametrize(("upstream_model", "said"), NAMES.values(), ids=NAMES.keys())
def test_each_name_of_the_model_is_the_callers(upstream_model, said):
    assert told(said, upstream_model=upstream_model) == f"{MODEL} and {MODEL}"


def test_a_name_that_is_a_word_is_one_only_where_it_is_named():
    said = "The model 'large' says: the image is too large for model large"
    expected = f"The model '{MODEL}' says: the image is too large for model {MODEL}"
    assert told(said, upstream_model="large") == expected


@pytest.mark.parametrize(
    ("base_url", "said"),
    [
        ("http://vllm-3:8000/v1", "vllm-3:8000 refused"),
        ("http://10.0.0.7:8000/v1", "http://10.0.0.7:8000/v1 refused"),
        ("https://mine.openai.azure.com/openai", "https://mine.openai.azure.com/openai/deployments/x?api-version=1 refused"),
        ("https://dashscope.aliyuncs.com.cn/v1", "help.aliyuncs.com.cn refused"),
        ("https://api.example.co.uk/v1", "docs.example.co.uk refused"),
    ],
)
def test_hosts_of_every_kind(base_url, said):
    assert told(said, base_url=base_url) == "*** refused"


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("status", [400, 422, 200])
def test_callers_do_not_see_them_and_staff_do(api, alice, large, upstream, caplog, status, streaming):
    words = f"large-2026 at {upstream.url} knows no such field, key {KEY}"
    upstream.will(reply(json.dumps({"error": {"message": words, "code": 400}}).encode(), status=status))
    answer = ask(api, stream=streaming)
    expected = "The model's provider refused the request: acme/large at *** knows no such field, key ***"
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, expected)
    assert f"large-2026 at {upstream.url}" in caplog.text
    assert KEY not in caplog.text
    assert_released(alice)


def test_nor_in_the_middle_of_a_stream(api, large, upstream):
    error = event({"error": {"message": f"large-2026 at {upstream.url} found prohibited content", "code": 400}})
    upstream.will(stream(ROLE, event({"choices": [{"index": 0, "delta": {"content": "Hel"}}]}), 0.1, error))
    last = ask(api, stream=True).getvalue().decode().strip().rpartition("data: ")[2]
    assert "acme/large at *** found" in json.loads(last)["error"]["message"]


# Callers have providers quote these. A search that begins anew in each of their characters takes seconds, or for ever.
LONG = ("a", "a.", "a-", "_", "~", "1.", "sk-", "a://", "org-1", "large-2026.", "large-2026-", "project ", "\u8d85\u8fc7")


def test_no_quotation_takes_long():
    began = time.process_time()
    for each in LONG:
        told(each * (20_000 // len(each)))
    told("large-2026" + "-4" * 60 + ".x")
    assert time.process_time() - began < 10
