"""Allauth's paths, as far as the gateway has their pages."""

from allauth.account import views
from django.urls import path
from django.views.generic import RedirectView

urlpatterns = [
    path("login/", views.login, name="account_login"),
    path("logout/", views.logout, name="account_logout"),
    path("password/change/", RedirectView.as_view(pattern_name="password"), name="account_change_password"),
    path("inactive/", views.account_inactive, name="account_inactive"),
]
