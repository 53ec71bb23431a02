from django.urls import path

from completions.history import pages

urlpatterns = [
    path("requests/", pages.list_requests, name="requests"),
    path("requests/<str:request_id>/", pages.show_request, name="request"),
]
