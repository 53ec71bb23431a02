from django.urls import path

from keys import pages

urlpatterns = [
    path("", pages.overview, name="dashboard"),
    path("keys/", pages.key_list, name="keys"),
    path("keys/new/", pages.new_key, name="new-key"),
    path("keys/<slug:key_id>/limit/", pages.limit_key, name="limit-key"),
    path("keys/<slug:key_id>/revoke/", pages.revoke_key, name="revoke-key"),
]
