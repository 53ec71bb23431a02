from django.urls import path
from django.views.generic import RedirectView

from rankings.pages import views

urlpatterns = [
    path("rankings", views.ranking, name="ranking-page"),
    path("rankings/", RedirectView.as_view(pattern_name="ranking-page", query_string=True)),
    path("rankings/<path:model_id>", views.ranked_model, name="ranked-model"),
]
