"""One request to one provider over HTTP, shared by all adapters: send it, await the response, report every failure alike."""

import json
import logging
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from django.conf import settings

from completions.chat import Call, Chunk
from completions.pricing.usage import Usage
from completions.providers import base, error_body, error_meanings, masking, sse
from completions.providers.access.keeper import CredentialUnavailable
from completions.providers.base import FailureKind, ProviderFailed
from completions.providers.error_body import ProviderError
from completions.request.fields import Fields
from gateway_project import errors, large_work, logs
from gateway_project.monitoring.steps import step
from gateway_project.net import http
from gateway_project.text import compact_json

logger = logging.getLogger("gateway.providers")

_MESSAGE_CHARACTERS_MAX = 300
_READ_CHARACTERS_MAX = 2_000  # of a message, to find its first printable ones
_PARAM = re.compile(r"[A-Za-z_][\w.\[\]-]{0,99}", re.ASCII)  # the path of a field
_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "apim-request-id", "x-amzn-requestid", "x-generation-id")
_CLOCK_MINUTES = 3  # wrong by this much is worth a word: clouds allow five, or less
_REQUEST_ID = re.compile(r"[!-~]{1,100}")

# Maps a refusal's status and body to the status it should have had, and to the seconds to wait as text ("" for none).
RefusalInterpreter = Callable[[int, bytes], tuple[int, str]]

Response = TypeVar("Response", http.BegunResponse, http.BegunResponse | None)


class UnusableResponse(Exception):
    """A response that is not in the provider's format, or is an error. ``usage``: what that reports."""

    usage: Usage | None = None


class InBandError(UnusableResponse):
    """An error within a response whose HTTP status was 2xx. ``status`` is the status that would have been right."""

    def __init__(self, error: ProviderError, status: int, usage: Usage | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.status = status
        self.usage = usage


def in_band_error(parsed: Any, usage: Usage | None = None) -> InBandError:
    """Return the exception for parsed JSON that is an error, and that came with a 2xx status."""
    error = error_body.from_json(parsed)
    if not error.message and isinstance(parsed, dict):  # not all of it: there may be text of a reply beside the error
        error = replace(error, message=f"it reports {json.dumps(parsed.get('error'))}")
    return InBandError(error, error.status or (400 if error.caller_code else 500), usage)


class Posted(msgspec.Struct, frozen=True, eq=False):
    """A request that was sent to a provider, whose response is awaited."""

    call: Call
    awaited: http.AwaitedResponse
    interpret: RefusalInterpreter

    def response(self) -> http.BegunResponse:
        """Return the 2xx response, which the caller closes. Its head comes with the whole reply. Raises ProviderFailed."""
        return self._checked(self.awaited.wait)

    def begun(self) -> Generator[list[Chunk], None, http.BegunResponse]:
        """Return the same for a stream, after an empty list at the deadline to begin: the caller may give up there."""
        response = self._checked(self.awaited.begin)
        if response is None:
            try:
                yield []
            except BaseException:
                self.awaited.close()
                raise
            response = self.response()
        return response

    def _checked(self, wait: Callable[[], Response]) -> Response:
        call = self.call
        try:
            response = wait()
        except http.OutboundError as error:
            raise provider_failure(call, error, provider_worked=isinstance(error, http.TimedOut)) from error
        if response is None:
            return response
        call.head.has_arrived, call.head.request_id = True, _request_id(call, response)
        if not 200 <= response.status < 300:
            try:
                raise _refusal(call, response, self.interpret)
            finally:
                response.close()
        return response


@step("post")
def post(
    call: Call,
    headers: dict[str, str],
    build_body: Callable[[], Fields],
    *,
    stream: bool,
    interpret: RefusalInterpreter,
) -> Posted:
    """Send the built body as JSON. Raises ProviderFailed."""
    head, target = call.head, call.route.target  # not the head of an earlier attempt
    head.has_arrived, head.request_id, head.served_tier, head.unrated_tier, head.proof = False, None, None, "", None
    url = target.stream_url if stream else target.url
    accept = "text/event-stream" if stream else "application/json"
    headers = {"Content-Type": "application/json", "Accept": accept, "Accept-Encoding": http.ACCEPTED_CODING, **headers}
    try:
        with large_work.turn(call.request.body.size_bytes):
            body = compact_json.dumps(build_body())
        call.request.body.release()  # nothing may keep its parts now: the wait for the provider may take minutes
        call.opened_seals.clear()
        if target.credential is not None:
            with _idle_provider():
                head.proof = target.credential.proof()
            headers.update(head.proof.headers("POST", url, body))
        awaited = http.send(url, headers=headers, body=body, deadlines=call.route.deadlines, until=call.until)
    except http.OutboundError as error:
        raise provider_failure(call, error, provider_worked=False) from error
    except CredentialUnavailable as error:
        raise _without_credential(call, str(error)) from error
    return Posted(call, awaited, interpret)


def _request_id(call: Call, response: http.BegunResponse) -> str | None:
    """Return the id by which the provider knows the request, for questions to it; None for one that must not be kept."""
    if response.header_names.isdisjoint(_REQUEST_ID_HEADERS):
        return None
    for name in _REQUEST_ID_HEADERS:
        if _REQUEST_ID.fullmatch(sent := response.header(name).strip()):
            return None if any([secret in sent for secret in _secrets(call)]) else sent  # noqa: C419  faster
    return None


def _secrets(call: Call) -> Sequence[str]:
    """Return what was shown to the provider, and must not be repeated to anyone else."""
    proof, api_key = call.head.proof, call.route.api_key
    return proof.secrets if proof else (api_key,) if api_key else ()


def explain(error: Exception, response: http.BegunResponse, body: bytes) -> Exception:
    """Return what to report for a response of which nothing could be used: the error in its body, or the kind of body."""
    if not isinstance(error, UnusableResponse) or isinstance(error, InBandError):
        return error
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        parsed = None
    return in_band_error(parsed) if error_body.is_error(parsed) else UnusableResponse(f"{error} ({_kind(response, body)})")


# --- Failing ----------------------------------------------------------------------------------------------------


def _refusal(call: Call, response: http.BegunResponse, interpret: RefusalInterpreter) -> ProviderFailed:
    """Return the failure for a status that is not 2xx."""
    body = b""
    with suppress(http.OutboundError):
        body = response.read_all()
    provider_error = error_body.parse(body, response.header("x-amzn-errortype").partition(":")[0])
    status, wait_seconds = interpret(response.status, body)
    status = provider_error.meant_status(status)
    location = response.header("location") if 300 <= response.status < 400 else ""
    words = f"it redirects to {location}" if location else provider_error.reason
    words, hint = words or f"no reason given ({_kind(response, body)})", _hint(call, status, response)
    reason, kept_reason = _reasons(call, words, response.status, "provider %s answered %s: %s", response.status, hint)
    waits = response.header("retry-after") or _whole_seconds(response.header("retry-after-ms")) or wait_seconds
    wait = int(waits) if waits.isascii() and waits.isdigit() and len(waits) < 10 else None  # no date: clocks differ
    headers = {} if wait is None or wait > errors.RETRY_AFTER_SECONDS_MAX else {"Retry-After": str(wait)}
    error, kind = _status_error(call, status, provider_error, headers), base.failure_kind(status)
    if response.header("x-should-retry").strip().lower() == "false":
        error.headers["x-should-retry"] = "false"
        kind = FailureKind.ROUTE_UNUSABLE if kind is FailureKind.RETRYABLE else kind
    key_refusal = _key_refusal(call, status, body[: error_meanings.KEY_TEXT_BYTES_MAX].decode(errors="replace"), reason)
    if key_refusal and _is_renewed(call):
        kind, key_refusal = FailureKind.CREDENTIAL_RENEWED, None
    return ProviderFailed(
        error,
        provider_worked=False,
        kind=kind,
        wait_seconds=wait,
        key_refusal=key_refusal,
        status=response.status,
        reason=kept_reason,
    )


def _whole_seconds(milliseconds: str) -> str:
    """Return the seconds of Azure's retry-after-ms; "" for what is no number."""
    is_number = milliseconds.isascii() and milliseconds.isdigit() and len(milliseconds) < 10
    return str(-(-int(milliseconds) // 1_000)) if is_number else ""


def _without_credential(call: Call, reason: str) -> ProviderFailed:
    """Return the failure of a request that was not sent, because nothing could be shown with it."""
    reason = _printable(call, reason)[:_MESSAGE_CHARACTERS_MAX]
    logs.report_failure(logger, "provider %s was not asked, without a credential: %s", call.route.provider_slug, reason)
    return ProviderFailed(base.refusing(), provider_worked=False, key_refusal=(base.NO_CREDENTIAL, reason), reason=reason)


def _is_renewed(call: Call) -> bool:
    """Return whether a credential that was refused has a successor, to be tried once: not by what probes a refused key."""
    credential, proof = call.route.target.credential, call.head.proof
    if not (credential and proof):
        return False
    with _idle_provider():
        return credential.renew(proof) and not call.route.is_key_refused  # the next probe shows the successor


@contextmanager
def _idle_provider() -> Iterator[None]:
    """Wait in it while no provider is at work: a client that leaves owes nothing."""
    try:
        yield
    except http.Interrupted as error:
        raise interruption(error, provider_worked=False) from error


def _key_refusal(call: Call, status: int, text: str, reason: str) -> tuple[int, str] | None:
    return (status, "" if call.keeps_nothing else reason) if error_meanings.is_about_key(status, text) else None


def _status_error(call: Call, status: int, error: ProviderError, headers: dict[str, str] | None = None) -> errors.ApiError:
    origin = {"base_url": call.route.base_url, "upstream_model": call.route.upstream_model, "model_id": call.offer.model_id}
    reason = masking.mask_origin(_printable(call, error.reason), **origin)[:_MESSAGE_CHARACTERS_MAX]
    return base.status_error(status, reason, headers, code=error.caller_code, param=_caller_param(call, error.param))


def _caller_param(call: Call, param: str) -> str | None:
    """Return the param of a provider's error when it names a field of the caller's request."""
    if not _PARAM.fullmatch(param):
        return None
    name, rest = re.split(r"(?=[.\[])", param, maxsplit=1) if re.search(r"[.\[]", param) else (param, "")
    if name in ("max_tokens", "max_completion_tokens"):  # it may have been sent by its other name
        name = call.request.max_tokens_field
    return name + rest if name in call.request.fields else None


def _hint(call: Call, status: int, response: http.BegunResponse) -> str:
    """Return what may be wrong with a key that a provider does not accept: our clock by its own, or what is signed for."""
    if status not in (401, 403):
        return ""
    minutes = 0
    with suppress(ValueError):
        minutes = round((time.time() - parsedate_to_datetime(response.header("date")).timestamp()) / 60)
    if abs(minutes) < _CLOCK_MINUTES:
        return call.head.proof.hint if call.head.proof else ""
    return f" (the clock of this host is {abs(minutes)} minutes {'ahead of' if minutes > 0 else 'behind'} the provider's)"


def _kind(response: http.BegunResponse, body: bytes) -> str:
    """Describe an unreadable body by size, type, compression and a page's title. Other text may be a reply, the caller's."""
    described = f"{len(body)} bytes of {response.header('content-type') or 'no type'}"
    if encoding := response.header("content-encoding"):
        return f"{described}, compressed with {encoding}"
    page_title = error_body.title(body)
    return f"{described}: {page_title}" if page_title else described


def _reasons(call: Call, words: str, status: int | None, line: str, ended: object, hint: str = "") -> tuple[str, str]:
    """Log a provider's words. Return them as staff see them, on one line of bounded length without keys; and as they are kept.

    ``hint``: our own words, which follow whole.
    The log has nothing of a 401, which is about our key: some providers repeat a part of it. With zdr it has no words at all.
    """
    reason = _printable(call, words)[: _MESSAGE_CHARACTERS_MAX - len(hint)] + hint
    kept_reason = _without_quotations(call, reason)
    logged = "its words are shown with the completion" if status == HTTPStatus.UNAUTHORIZED else kept_reason
    if call.keeps_nothing:
        logged = "its words are not kept, as zdr is demanded"
    logs.report_failure(logger, line, call.route.provider_slug, ended, logged)
    return reason, kept_reason


def _printable(call: Call, text: str) -> str:
    one_line = " ".join(text[:_READ_CHARACTERS_MAX].split())
    printable = "".join(character for character in one_line if character.isprintable())
    return masking.mask_keys(printable, *_secrets(call))


_QUOTATION = re.compile(r"(?<!\w)(['\"`])(.+?)\1(?!\w)")


def _without_quotations(call: Call, reason: str) -> str:
    """Return a reason without what it quotes, which may be the prompt. Names of fields and of the model stay."""
    known = {*call.request.fields, call.route.upstream_model}
    return _QUOTATION.sub(lambda quoted: quoted[0] if quoted[2] in known else f"{quoted[1]}...{quoted[1]}", reason)


def provider_failure(call: Call, error: Exception, *, provider_worked: bool) -> ProviderFailed:
    """Return the failure for ``error``, which ended the exchange: an OutboundError, EventTooLarge or UnusableResponse."""
    if isinstance(error, http.Interrupted):
        return interruption(error, provider_worked=provider_worked or error.is_sent)
    kind_of_error, status = type(error).__name__, error.status if isinstance(error, InBandError) else None
    reason, kept_reason = _reasons(call, str(error), status, "provider %s broke off (%s): %s", kind_of_error)
    # The size of a reply that was too large, if the request may be the reason; otherwise the provider failed.
    is_too_large = isinstance(error, http.ResponseTooLarge) and call.request.fields.get("logprobs")
    key_refusal = None
    if isinstance(error, InBandError):
        meant = error.error.meant_status(error.status)
        api_error, kind = _status_error(call, meant, error.error), base.failure_kind(meant)
        key_refusal = _key_refusal(call, meant, reason, reason)
    else:
        api_error, kind = _meaning(error, provider_worked=provider_worked)
    return ProviderFailed(
        api_error,
        provider_worked=provider_worked,
        kind=kind,
        is_cut_off=provider_worked and isinstance(error, http.TimedOut | http.ResponseTooLarge | sse.EventTooLarge),
        unread_bytes=settings.UPSTREAM_REPLY_BYTES_MAX if is_too_large else 0,
        key_refusal=key_refusal,
        status=status,
        reason=f"{kind_of_error}: {kept_reason}",
    )


def interruption(error: http.Interrupted, *, provider_worked: bool) -> ProviderFailed:
    """Return the failure for a wait that ended because the client disconnected, or because the worker must end."""
    failure = base.client_disconnected if isinstance(error, http.ClientDisconnected) else base.shutting_down
    return failure(provider_worked=provider_worked)


def _meaning(error: Exception, *, provider_worked: bool) -> tuple[errors.ApiError, FailureKind]:
    """Return what the caller is told, and whether the provider may be asked again: not after minutes of silence or nonsense."""
    if isinstance(error, http.TimedOut):
        return base.timed_out(), FailureKind.SILENT if isinstance(error, http.GivenUp) else FailureKind.ROUTE_UNUSABLE
    if isinstance(error, http.LocalFault):
        return base.not_connectable(), FailureKind.LOCAL_FAULT
    if isinstance(error, http.ConnectFailed):
        return base.unreachable(), FailureKind.RETRYABLE
    if isinstance(error, UnusableResponse) and not provider_worked:
        return base.unreadable(), FailureKind.ROUTE_UNUSABLE
    is_retryable = isinstance(error, http.ConnectionBroken)
    return base.broke_off(), FailureKind.RETRYABLE if is_retryable else FailureKind.ROUTE_UNUSABLE
