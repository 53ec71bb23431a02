from django.apps import AppConfig


class ActivityConfig(AppConfig):
    name = "gateway_project.activity"
    label = "activity"
