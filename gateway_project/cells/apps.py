from django.apps import AppConfig


class CellsConfig(AppConfig):
    name = "gateway_project.cells"
    label = "cells"
