"""The next layer of middleware, called directly."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse


def without_conversion(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Return the next layer without Django's function around it, which makes a reply of an exception: it is not changed."""
    layer: Callable[[HttpRequest], HttpResponse] = getattr(get_response, "__wrapped__", get_response)
    return layer
