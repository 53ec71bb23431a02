"""Messages of 404 replies: what to set or use instead of a path that does not exist, without a word of that path."""

from django.http import HttpRequest

from gateway_project.web import hosts

_NOTHING = "Path not found"
_CHAT = ("chat", "completions")
_MESSAGES = (("messages",), ("messages", "count_tokens"))
_QUOTES = (("messages", "quote"), ("responses", "quote"), ("quote",))  # the last is the end of the others
_RESPONSES = (("responses",), ("responses", "compact"), ("responses", "input_tokens"))
_OF_V1 = (_CHAT, *_MESSAGES, *_RESPONSES, ("embeddings",), *_QUOTES, ("models",), ("usage",), ("key",), ("generation",))
_FIRST_OF_V1 = {"v1", *(endpoint[0] for endpoint in _OF_V1)}
_OF_API = (("billing", "balance"), ("billing", "ledger"), ("billing", "ledger.csv"), ("rankings",), ("openapi.json",))

_TURNS = "previous_response_id of POST {v1}/responses continues a conversation"
# Endpoints of OpenAI, Anthropic and OpenRouter that the gateway does not have, by how the path begins; and the replacement. The
# first that fits counts. Sources: the resources of openai-python and anthropic-sdk-python, openrouter.ai/docs/api_reference.
_MISSING: dict[tuple[str, ...], tuple[str, str]] = {
    ("messages", "batches"): ("batches", "Send each request by itself."),
    ("batches",): ("batches", "Send each request by itself, or to {v1}/responses with background: true."),
    ("files",): ("files", "Send a file inside its message: as file_data of a part of the type file."),
    ("uploads",): ("uploads", "Send a file inside its message: as file_data of a part of the type file."),
    ("vector_stores",): ("vector stores", "Embeddings are at {v1}/embeddings."),
    ("conversations",): ("stored conversations", f"{_TURNS}."),
    ("assistants",): ("assistants", f"{_TURNS}, and its instructions and tools are those of an assistant."),
    ("threads",): ("threads", f"{_TURNS}."),
    ("completions",): ("text completions", "Send the prompt as a message of the user."),
    ("engines",): ("engines", "Name the model in the body."),
    ("images",): ("endpoints for images", "Models with image_support read images in messages."),
    ("videos",): ("endpoints for videos", ""),
    ("audio",): ("endpoints for audio", "Some models read audio in messages: a part of the type input_audio."),
    ("realtime",): ("realtime sessions", "stream: true sends a reply while it is written."),
    ("moderations",): ("moderations", "The field moderation of a request has OpenAI check its models' replies."),
    ("fine_tuning",): ("fine-tuning", ""),
    ("fine-tunes",): ("fine-tuning", ""),
    ("evals",): ("evals", ""),
    ("graders",): ("graders", ""),
    ("containers",): ("containers", "Tools run at the caller."),
    ("skills",): ("skills", ""),
    ("chatkit",): ("ChatKit", ""),
    ("webhooks",): ("webhooks of this path", "An account's are on the dashboard."),
    ("organization",): ("administration of this path", "Usage is at {v1}/usage, and keys are on the dashboard."),
    ("projects",): ("projects", "Keys are on the dashboard."),
    ("credits",): ("credits of this path", "GET {v1}/usage has the balance."),
    ("auth",): ("endpoints to sign in", "Keys are on the dashboard; GET {v1}/key describes one."),
    ("keys",): ("keys of this path", "GET {v1}/key describes the one that asks; keys are made on the dashboard."),
    ("endpoints",): ("endpoints of this path", "GET {v1}/models has the models and their prices."),
    ("providers",): ("list of providers", "GET {v1}/models has the models and their prices."),
    ("rerank",): ("reranking", "Embeddings are at {v1}/embeddings."),
}
_NOT_STORED = "Chat completions are not stored. GET {v1}/completions/{{id}} tells what one cost; {v1}/responses stores replies."


def message(request: HttpRequest) -> str:
    segments = tuple(filter(None, request.path_info.split("/")))
    api_url, base_url = hosts.api_url(request), hosts.base_url(request)
    if _names_stored_chat(segments):
        return _NOT_STORED.format(v1=f"{api_url}/v1")
    if missing := _missing(segments):
        what, instead = missing
        only = f"only chat completions, messages and responses: POST {api_url}/v1/{'/'.join(_CHAT)}."
        return f"The gateway has no {what}, {only} {instead.format(v1=f'{api_url}/v1')}".rstrip()
    if endpoint := _at_end(segments, _OF_V1):
        return _misplaced(request, segments, f"{api_url}/v1", "/v1", endpoint)
    if endpoint := _at_end(segments, _OF_API):
        return _misplaced(request, segments, f"{base_url}/api", "/api", endpoint)
    if "responses" in segments:
        return f"{_NOTHING}. Responses are at {api_url}/v1/responses and {api_url}/v1/responses/{{id}}."
    if "models" in segments:
        return f"{_NOTHING}. Models are at {api_url}/v1/models and {api_url}/v1/models/{{id}}."
    if segments[:1] == ("v1",):
        return f"{_NOTHING}. The paths of {api_url}/v1 are {', '.join('/' + '/'.join(each) for each in _OF_V1)}."
    if segments[:1] == ("api",):
        return f"{_NOTHING}. All paths are described at {base_url}/api/openapi.json."
    if api_url != base_url:
        return f"{_NOTHING}. {api_url} serves /v1; the dashboard, the rankings and /api are at {base_url}."
    return f"{_NOTHING}."


def _names_stored_chat(segments: tuple[str, ...]) -> bool:
    """Return whether a path is that of a stored chat completion, or of its messages. Else a base URL is too long."""
    place = segments.index(_CHAT[0]) if _CHAT[0] in segments else len(segments)
    chat_completions, rest = segments[place : place + 2], segments[place + 2 :]
    return chat_completions == _CHAT and bool(rest) and rest[0] not in _FIRST_OF_V1 and rest[1:] in ((), ("messages",))


def _missing(segments: tuple[str, ...]) -> tuple[str, str] | None:
    """Return what a path names that there is not, unless it names an endpoint before, or is of the dashboard's API."""
    if segments[:1] == ("api",) and "v1" not in segments:
        return None
    for place in range(len(segments)):
        if segments[place:] in _OF_V1 or segments[place] in ("models", "responses", "chat"):
            return None
        for path, missing in _MISSING.items():
            if segments[place : place + len(path)] == path:
                return missing
    return None


def _at_end(segments: tuple[str, ...], endpoints: tuple[tuple[str, ...], ...]) -> tuple[str, ...] | None:
    return next((endpoint for endpoint in endpoints if segments[-len(endpoint) :] == endpoint), None)


def _misplaced(request: HttpRequest, segments: tuple[str, ...], root_url: str, root: str, endpoint: tuple[str, ...]) -> str:
    """Return where the endpoint is: the request had too many slashes, another prefix or the other host."""
    rest = "/".join(endpoint)
    right_path = f"{root}/{rest}"
    if f"/{'/'.join(segments)}" == right_path != request.path_info:
        return f"{_NOTHING}: it has a slash too many. Send the request to {root_url}/{rest}."
    if root == "/v1":  # Anthropic's clients add the version themselves
        set_url = root_url.removesuffix(root) if endpoint in (*_MESSAGES, _QUOTES[0]) else root_url
        return f"{_NOTHING}. Set base_url to {set_url}, so that the request goes to {root_url}/{rest}."
    return f"{_NOTHING}. Send the request to {root_url}/{rest}."
