"""How many tokens a prompt is likely to have, for callers that ask before they send it."""

from completions import estimates
from completions.catalog import eligibility, lookup
from completions.charging import admission
from completions.chat import ChatRequest, Offer
from gateway_project.text import compact_json
from keys.authentication import Caller
from keys.models import ApiKey


def estimate(key: ApiKey, chat: ChatRequest) -> int:
    """Return the likely tokens of a request. Raises ModelNotFound for a model that the key may not use."""
    offer = lookup.find_offer(chat.model, caller=Caller(key.pk, key.account_id))
    admission.require_allowed(key, offer)
    eligibility.require_kind(chat, offer)
    return _estimate(chat, offer)


def _estimate(chat: ChatRequest, offer: Offer) -> int:
    """Return the likely tokens of text and tools, by their bytes, and the maximum of images and documents."""
    if chat.contents.file_at:
        return estimates.max_prompt_tokens(chat, offer) // (1 + chat.web_searches_max)  # of one reading
    others = [chat.fields[name] for name in ("tools", "response_format") if name in chat.fields]
    text_bytes = chat.contents.text_bytes + sum(len(compact_json.dumps(each)) for each in others)
    return max(estimates.estimate_tokens(text_bytes) + chat.contents.images * offer.image_tokens_max, 1)
