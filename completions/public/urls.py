"""The paths of the public pages."""

from django.urls import path
from django.views.generic import RedirectView

from completions.public import pages

urlpatterns = [
    path("", pages.landing, name="landing"),
    path("models", pages.model_list, name="models"),
    path("models/", RedirectView.as_view(pattern_name="models", query_string=True)),
    path("models/<path:model_id>", pages.model, name="model"),
]
