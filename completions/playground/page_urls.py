from django.urls import path

from completions.playground import pages

urlpatterns = [path("", pages.playground, name="playground")]
