from django.urls import include, path

from keys import views

urlpatterns = [
    path("", views.overview, name="dashboard"),
    path("", include("billing.page_urls")),
    path("keys/", views.key_list, name="keys"),
    path("keys/new/", views.new_key, name="new-key"),
    path("keys/<slug:key_id>/limit/", views.limit_key, name="limit-key"),
    path("keys/<slug:key_id>/revoke/", views.revoke_key, name="revoke-key"),
]
