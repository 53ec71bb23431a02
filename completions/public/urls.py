from django.urls import path
from django.views.generic import RedirectView

from completions.public import pages

urlpatterns = [
    path("", pages.landing, name="landing"),
    path("sitemap.xml", pages.sitemap, name="sitemap"),
    path("status", pages.status_page, name="status"),
    path("status.rss", pages.status_feed, name="status-feed"),
    path("docs", pages.docs, name="docs"),
    path("docs/", RedirectView.as_view(pattern_name="docs", query_string=True)),
    path("models", pages.model_list, name="models"),
    path("models/", RedirectView.as_view(pattern_name="models", query_string=True)),
    path("models/<path:model_id>", pages.model, name="model"),
]
