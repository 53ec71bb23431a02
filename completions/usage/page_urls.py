from django.urls import path

from completions.usage import pages

urlpatterns = [
    path("", pages.show_usage, name="usage"),
    path("usage.csv", pages.download_usage, name="usage-csv"),
    path("focus.csv", pages.download_focus, name="usage-focus"),
]
