from django.urls import path

from completions.history import monthly_statement, pages

urlpatterns = [
    path("ledger/<int:year>/<int:month>/", monthly_statement.show_month, name="monthly-statement"),
    path("requests/", pages.list_requests, name="requests"),
    path("requests/export/", pages.download_requests, name="requests-csv"),
    path("requests/<str:request_id>/", pages.show_request, name="request"),
]
