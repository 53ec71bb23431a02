"""Tags of the frame of pages."""

from typing import Any

from django import template
from django.conf import settings
from django.template.context import Context
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from gateway_project.text import dollars
from gateway_project.web import hosts

register = template.Library()


@register.simple_tag(takes_context=True)
def page_link(context: Context, title: str, url_name: str, section_name: str = "", css_class: str = "") -> str:
    """Return a link for a navigation, marked on the pages whose ``section`` it is; nothing on the completion API's own host."""
    address = _address(context, url_name)
    if not address:
        return ""
    is_current = context.get("section") == (section_name or url_name)
    attributes = format_html(' class="{}"', css_class) if css_class else SafeString("")
    attributes += SafeString(' aria-current="page"' if is_current else "")
    return format_html('<a href="{}"{}>{}</a>', address, attributes, title)


def _address(context: Context, url_name: str) -> str:
    try:
        return reverse(url_name, urlconf=getattr(context.get("request"), "urlconf", None))
    except NoReverseMatch:
        return ""


@register.simple_tag(takes_context=True)
def status_address(context: Context) -> str:
    """Return where the gateway's state is shown: on a page of the operator's, or its own; "" where there is none."""
    return settings.STATUS_URL or _address(context, "status")


@register.simple_tag
def operator_links() -> list[tuple[str, str]]:
    """Return titles and addresses of the operator's own pages that the settings name."""
    named = [("Terms", settings.TERMS_URL), ("Privacy", settings.PRIVACY_URL)]
    return [(title, address) for title, address in named if address]


register.simple_tag(lambda: settings.SUPPORT_ADDRESS, name="support_mailbox")
register.simple_tag(
    lambda: settings.TRIAL_CREDIT_CENTS and dollars.format_cents(settings.TRIAL_CREDIT_CENTS), name="trial_credit"
)
register.simple_tag(lambda: settings.SIGN_UP and settings.SENDS_MAIL, name="may_sign_up")


@register.inclusion_tag("public/_share_card.html", takes_context=True)
def share_card(context: Context, title: str, description: str) -> dict[str, Any]:
    """Return the tags that search engines and links in other places show. Picture and ``canonical_path`` need a known host."""
    path = context.get("canonical_path")
    return {"title": title, "description": description, "host": hosts.configured_url(settings.GATEWAY_BASE_HOST), "path": path}
