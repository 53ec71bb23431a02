from django.urls import path

from completions.history import monthly_statement, runs
from completions.history import pages as history_pages
from completions.own_keys import pages as own_key_pages
from completions.playground import first_request
from completions.playground import pages as playground_pages
from completions.usage import pages as usage_pages

urlpatterns = [
    path("usage/", usage_pages.show_usage, name="usage"),
    path("usage/usage.csv", usage_pages.download_usage, name="usage-csv"),
    path("usage/focus.csv", usage_pages.download_focus, name="usage-focus"),
    path("ledger/<int:year>/<int:month>/", monthly_statement.show_month, name="monthly-statement"),
    path("requests/", history_pages.list_requests, name="requests"),
    path("requests/export/", history_pages.download_requests, name="requests-csv"),
    path("requests/<str:request_id>/", history_pages.show_request, name="request"),
    path("runs/", runs.list_runs, name="runs"),
    path("runs/<slug:key_id>/<str:name>/", runs.show_run, name="run"),
    path("settings/provider-keys/", own_key_pages.show, name="provider-keys"),
    path("settings/provider-keys/new/", own_key_pages.add, name="new-provider-key"),
    path("settings/provider-keys/<uuid:key_id>/", own_key_pages.change, name="provider-key"),
    path("settings/provider-keys/<uuid:key_id>/remove/", own_key_pages.remove, name="remove-provider-key"),
    path("start/", first_request.first_request, name="first-request"),
    path("start/send/", first_request.stream_first_request, name="send-first-request"),
    path("playground/", playground_pages.playground, name="playground"),
    path("playground/charge/<str:completion_id>/", playground_pages.show_charge, name="playground-charge"),
]
