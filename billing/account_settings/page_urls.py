from django.urls import path

from billing.account_settings import activity_pages, pages

urlpatterns = [
    path("", pages.show, name="settings"),
    path("activity/", activity_pages.show_activity, name="activity"),
    path("activity.csv", activity_pages.download_activity, name="activity-csv"),
]
