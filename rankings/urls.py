"""What stands under /api/rankings."""

from django.urls import path

from rankings import views

urlpatterns = [path("rankings", views.RankingsView.as_view(), name="rankings")]
