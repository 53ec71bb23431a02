"""Tags of the frame of pages."""

from django import template
from django.template.context import Context
from django.templatetags.static import static
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from gateway_project.web import hosts

register = template.Library()


@register.simple_tag(takes_context=True)
def page_link(context: Context, title: str, url_name: str, section_name: str = "") -> str:
    """Return a link for a navigation, marked on the pages whose ``section`` it is; nothing where there is no such page.

    The completion API's own host has none of them, and shows its error pages in the same frame.
    """
    try:
        address = reverse(url_name, urlconf=getattr(context.get("request"), "urlconf", None))
    except NoReverseMatch:
        return ""
    is_current = context.get("section") == (section_name or url_name)
    return format_html('<a href="{}"{}>{}</a>', address, SafeString(' aria-current="page"' if is_current else ""), title)


@register.simple_tag
def share_card(title: str, description: str) -> str:
    """Return the tags that search engines and links to the page in other places show: title, words and picture.

    The picture needs an absolute address, so it is left out where GATEWAY_BASE_HOST is not set.
    """
    words = format_html(
        '<meta name="description" content="{0}">'
        '<meta property="og:type" content="website"><meta property="og:site_name" content="Model Gateway">'
        '<meta property="og:title" content="{1}"><meta property="og:description" content="{0}">',
        description,
        title,
    )
    address = hosts.configured_base_url()
    if not address:
        return words
    picture = f"{address}{static('dashboard/card.png')}"
    return words + format_html(
        '<meta property="og:image" content="{}"><meta property="og:image:width" content="1200">'
        '<meta property="og:image:height" content="630"><meta name="twitter:card" content="summary_large_image">',
        picture,
    )
