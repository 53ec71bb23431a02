"""Messages of 404 replies: what to set or use instead of a path that does not exist.

The messages are made of our own addresses and endpoints. They repeat nothing of the request's path.
"""

from django.http import HttpRequest

from gateway_project.web import hosts

_NOTHING = "Path not found"
_CHAT = ("chat", "completions")
_MESSAGES = (("messages",), ("messages", "count_tokens"))
_QUOTES = (("messages", "quote"), ("responses", "quote"), ("quote",))  # the last is the end of the others
_RESPONSES = (("responses",), ("responses", "input_tokens"))
_OF_V1 = (_CHAT, *_MESSAGES, *_RESPONSES, ("embeddings",), *_QUOTES, ("models",), ("usage",), ("key",), ("generation",))
_OF_API = (("billing", "balance"), ("billing", "ledger"), ("billing", "ledger.csv"), ("rankings",), ("openapi.json",))

# Endpoints of other APIs that the gateway does not have, by a segment of their paths.
_MISSING = {
    "completions": "text completions",
    "images": "endpoints for images",
    "audio": "endpoints for audio",
    "moderations": "moderations",
    "files": "files",
    "batches": "batches",
}


def message(request: HttpRequest) -> str:
    """Return the message of the reply to a request whose path does not exist."""
    segments = tuple(filter(None, request.path_info.split("/")))
    api_url, base_url = hosts.api_url(request), hosts.base_url(request)
    if endpoint := _at_end(segments, _OF_V1):
        return _misplaced(request, segments, f"{api_url}/v1", "/v1", endpoint)
    if endpoint := _at_end(segments, _OF_API):
        return _misplaced(request, segments, f"{base_url}/api", "/api", endpoint)
    if "responses" in segments:
        return f"{_NOTHING}. Responses are at {api_url}/v1/responses and {api_url}/v1/responses/{{id}}."
    if missing := next((_MISSING[segment] for segment in segments if segment in _MISSING), None):
        return (
            f"The gateway has no {missing}, only chat completions, messages and responses: POST {api_url}/v1/{'/'.join(_CHAT)}."
        )
    if "models" in segments:
        return f"{_NOTHING}. Models are at {api_url}/v1/models and {api_url}/v1/models/{{id}}."
    if segments[:1] == ("v1",):
        return f"{_NOTHING}. The paths of {api_url}/v1 are {', '.join('/' + '/'.join(each) for each in _OF_V1)}."
    if segments[:1] == ("api",):
        return f"{_NOTHING}. All paths are described at {base_url}/api/openapi.json."
    if api_url != base_url:
        return f"{_NOTHING}. {api_url} serves /v1; the dashboard, the rankings and /api are at {base_url}."
    return f"{_NOTHING}."


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
