"""The page of the playground. With scripts it streams the reply; without, it sends the form and shows the whole reply."""

import json
from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render

from billing.accounts.member_pages import form_page, plain_page
from billing.accounts.roles import Permission
from billing.models import Account
from completions.catalog import lookup
from completions.models import Completion, ModelKind
from completions.playground import completion
from completions.playground.forms import PlaygroundForm
from gateway_project import errors
from gateway_project.text import dollars
from gateway_project.web import error_replies, hosts
from keys import acts
from keys.authentication import Caller

_REVOKED = "The Playground key was revoked or has expired. Select this to create a new one."
_EXAMPLE_PROMPTS = (
    "Explain a hash table in two sentences.",
    "Write a haiku about a Monday morning.",
    "Which three questions should I ask before I choose a database?",
)
_EXAMPLE_REQUEST = {"model": "demo/echo", "messages": [{"role": "user", "content": "Hello"}]}


@form_page(Permission.SEND_REQUESTS)
def playground(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Show the form; a POST sends it. A client that accepts ``text/event-stream`` gets the stream as the API sends it."""
    models = [each for each in lookup.list_models(available=True) if each.model.kind == ModelKind.CHAT]
    if request.method != "POST":
        form = PlaygroundForm(account, models)
        form.initial["model"] = request.GET.get("model") or next((each.id for each in form.models), "")
        form.initial["prompt"] = request.GET.get("prompt", "")
        return _page(request, form)
    is_streamed = "text/event-stream" in request.headers.get("Accept", "")
    form = PlaygroundForm(account, models, request.POST)
    caller = _caller(request, account, form)
    if caller is None:
        if not is_streamed:
            return _page(request, form, turns=form.cleaned_data.get("earlier", ()))
        name, messages = next(iter(form.errors.items()))
        return error_replies.as_json(errors.InvalidRequest(str(messages[0]), param=name), request)
    fields = form.fields_of_request(is_streamed=is_streamed)
    reply = completion.send(request, caller, fields)
    return reply if is_streamed else _answered(request, form, fields, reply)


@plain_page()
def show_charge(request: HttpRequest, account: Account, completion_id: str) -> HttpResponse:
    """Tell what a completion was charged, as JSON: a stopped reply may be charged when its provider has finished it."""
    sent = get_object_or_404(Completion, account=account, pk=completion_id)
    charge: dict[str, Any] = {"isSettled": sent.settlement is not None}
    if sent.settlement is not None:
        charge["costInDollars"] = dollars.format_plain(sent.cost_nanos or 0)
        charge["promptTokens"] = sent.prompt_tokens
        charge["completionTokens"] = sent.completion_tokens
        left_nanos = completion.balance_after(account, completion_id)
        charge["balanceInDollars"] = dollars.format_plain(account.balance_nanos if left_nanos is None else left_nanos)
    return JsonResponse(charge)


def _caller(request: HttpRequest, account: Account, form: PlaygroundForm) -> Caller | None:
    """Return who pays for a valid form; None, with an error in the form, if it is not valid or its key may not be used."""
    if not form.is_valid():
        return None
    try:
        found = completion.find_or_make_key(request, account, completion.KEY_NAME, makes_another=form.cleaned_data["makes_key"])
    except (errors.MaximumReached, acts.AccountClosed) as refusal:
        form.add_error(None, refusal.message)
        return None
    if found is None:
        form.add_error("makes_key", _REVOKED)
        return None
    return Caller(found[0].pk, account.pk)


def _answered(request: HttpRequest, form: PlaygroundForm, fields: dict[str, Any], response: HttpResponseBase) -> HttpResponse:
    """Show the reply, and a form that continues the conversation. After an error the form is as it was sent."""
    reply = completion.read(response)
    prompt = form.cleaned_data["prompt"]
    if not reply.error:
        turn = [{"role": "user", "content": prompt}, {"role": "assistant", "content": reply.text}]
        earlier = json.dumps([*form.cleaned_data["earlier"], *turn], ensure_ascii=False)
        form.data = {**form.data.dict(), "earlier": earlier, "prompt": ""}  # type: ignore[attr-defined]
    turns = form.cleaned_data["earlier"]
    return _page(request, form, fields=fields, reply=reply, prompt=prompt, turns=turns, status=response.status_code)


def _page(
    request: HttpRequest,
    form: PlaygroundForm,
    *,
    fields: dict[str, Any] | None = None,
    reply: completion.Reply | None = None,
    prompt: str = "",
    turns: Sequence[dict[str, str]] = (),
    status: int = 200,
) -> HttpResponse:
    context = {
        "form": form,
        "reply": reply,
        "asked": prompt if reply and not reply.error else "",
        "turns": turns,
        "request_json": json.dumps(fields or _EXAMPLE_REQUEST, indent=2, ensure_ascii=False),
        "api_url": hosts.api_url(request),
        "key_name": completion.KEY_NAME,
        "examples": _EXAMPLE_PROMPTS,
        "needs_key": "makes_key" in form.errors,
    }
    return render(request, "completions/playground.html", context, status=status)
