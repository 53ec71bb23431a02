from django.urls import path

from completions.playground import pages

urlpatterns = [
    path("", pages.playground, name="playground"),
    path("charge/<str:completion_id>/", pages.show_charge, name="playground-charge"),
]
