"""Media types and data URLs are read as RFC 2045 and RFC 2397 write them, in every language and for every kind of provider."""

import pytest

from completions.request import media
from gateway_project.errors import InvalidRequest
from tests.completions.providers.sent import sent

DATA = "iVBORw0KGgo="
# The head of a data URL -> its media type; None: it is none.
HEADS = {
    "data:image/png;base64": "image/png",
    "DATA:IMAGE/PNG;BASE64": "image/png",
    "data:image/jpg;base64": "image/jpeg",
    "data:image/pjpeg;base64": "image/jpeg",
    "data:Image/JPG;base64": "image/jpeg",
    "data:image/png;charset=utf-8;base64": "image/png",
    'data:image/png;name="a.png";charset=utf-8;Base64': "image/png",
    "data: image/png ; base64": "image/png",
    "data:application/x-pdf;base64": "application/pdf",
    "data:application/pdf;name=a.pdf;base64": "application/pdf",
    "data:audio/x-wav;base64": "audio/wav",
    "data:image/svg+xml;base64": "image/svg+xml",
    "data:image/png": None,
    "data:;base64": None,
    "data:pdf;base64": None,
    "data:image/;base64": None,
    "data:image/png;base64url": None,
    "https://example.org/a.png?data:image/png;base64": None,
    "data:" + "a" * 2_000 + "/png;base64": None,
}


@pytest.mark.parametrize(("head", "kind"), HEADS.items(), ids=lambda value: str(value)[:60])
def test_data_url_is_read_by_its_standards(head, kind):
    assert media.read_data_url(f"{head},{DATA}") == (kind and (kind, DATA))


# How an image is written -> its media type. In Messages, what stands before the data is a member of its own.
IMAGES = {
    "IMAGE/PNG": "image/png",
    "image/jpg": "image/jpeg",
    "image/png;charset=utf-8": "image/png",
    "Image/X-PNG": "image/png",
}


def image_parts(media_type):
    url = f"data:{media_type};base64,{DATA}"
    block = {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": DATA}}
    shown = {"type": "tool_result", "tool_use_id": "t", "content": [block]}
    used = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    return {
        "chat": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]},
        "messages": {"messages": [{"role": "user", "content": [block]}]},
        "messages, in a result": {
            "messages": [
                {"role": "user", "content": "Look"},
                {"role": "assistant", "content": [used]},
                {"role": "user", "content": [shown]},
            ]
        },
        "responses": {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]},
    }


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "openai", "mistral", "own", "responses"])
@pytest.mark.parametrize("language", image_parts(""))
@pytest.mark.parametrize(("written", "kind"), IMAGES.items())
def test_image_has_its_registered_type_at_every_provider(provider, language, written, kind):
    body, _ = sent(provider, language.partition(",")[0], **image_parts(written)[language])
    assert _image_types(body) == [kind]


def _image_types(value):
    if isinstance(value, list):
        return [kind for each in value for kind in _image_types(each)]
    if isinstance(value, str):
        return [value[5 : -len(DATA) - 8]] if value.startswith("data:") and value.endswith(f";base64,{DATA}") else []
    if not isinstance(value, dict):
        return []
    own = [value[name] for name in ("media_type", "mimeType") if name in value]
    return own + [kind for each in value.values() for kind in _image_types(each)]


@pytest.mark.parametrize(
    ("provider", "language", "media_type", "param"),
    [
        ("own", "chat", "image/foo", "messages[0].content[0].image_url.url"),
        ("own", "messages", "image/foo", "messages[0].content[0].source"),
        ("own", "responses", "image/foo", "input[0].content[0].image_url"),
        ("own", "chat", "text/html", "messages[0].content[0].image_url.url"),
        ("anthropic", "chat", "image/tiff", "messages[0].content[0].image_url.url"),
        ("gemini", "chat", "image/gif", "messages[0].content[0].image_url.url"),
    ],
)
def test_unknown_type_is_refused_by_the_path_of_its_part(provider, language, media_type, param):
    with pytest.raises(InvalidRequest) as refusal:
        sent(provider, language, **image_parts(media_type)[language])
    assert refusal.value.param == param


@pytest.mark.parametrize("media_type", ["application/octet-stream", "application/zip", "application/msword"])
def test_file_of_a_type_that_gemini_does_not_read_is_refused(media_type):
    file = {"type": "file", "file": {"file_data": f"data:{media_type};base64,aa"}}
    with pytest.raises(InvalidRequest) as refusal:
        sent("gemini", messages=[{"role": "user", "content": [file]}])
    assert refusal.value.param == "messages[0].content[0].file.file_data"


@pytest.mark.parametrize("media_type", ["TEXT/PLAIN", "text/plain; charset=utf-8"])
@pytest.mark.parametrize("provider", ["anthropic", "gemini"])
def test_document_in_text_has_its_type_in_any_spelling(provider, media_type):
    document = {"type": "document", "source": {"type": "text", "media_type": media_type, "data": "Once."}}
    body, _ = sent(provider, "messages", messages=[{"role": "user", "content": [document]}])
    if provider == "anthropic":
        assert body["messages"][0]["content"][0]["source"]["media_type"] == "text/plain"
    else:
        assert body["contents"][0]["parts"] == [{"text": "Once."}]
