"""The paths under /api/keys."""

from django.urls import path

from keys.key_api import views

urlpatterns = [
    path("keys", views.KeyListView.as_view()),
    path("keys/<slug:key_id>", views.KeyView.as_view()),
    path("keys/<slug:key_id>/pause", views.PauseView.as_view()),
    path("keys/<slug:key_id>/resume", views.ResumeView.as_view()),
    path("keys/<slug:key_id>/rotate", views.RotateView.as_view()),
    path("keys/<slug:key_id>/revoke", views.RevokeView.as_view()),
]
