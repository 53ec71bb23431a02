"""What the apps contribute to something that knows none of them: modules of the same name, with lists of the same name."""

from functools import cache
from importlib import import_module
from typing import Any

from django.apps import apps
from django.utils.module_loading import module_has_submodule


@cache  # it looks for files of all apps, and every page of the desk asks
def collect(module: str, name: str) -> tuple[Any, ...]:
    """Return the lists ``name`` in the modules ``module``, such as ``desk.panels``, of all apps as one, in the apps' order."""
    modules = [f"{app.name}.{module}" for app in apps.get_app_configs() if module_has_submodule(app.module, module)]
    return tuple(contributed for each in modules for contributed in getattr(import_module(each), name, []))
