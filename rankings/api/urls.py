from django.urls import path

from rankings.api import views

urlpatterns = [path("rankings", views.RankingsView.as_view(), name="rankings")]
