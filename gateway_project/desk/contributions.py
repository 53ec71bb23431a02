"""What the apps contribute to the support desk."""

from functools import cache
from importlib import import_module
from typing import Any

from django.apps import apps
from django.utils.module_loading import module_has_submodule


@cache  # it looks for files of all apps, and every page of the desk asks
def collect(module: str, name: str) -> tuple[Any, ...]:
    """Return the lists of this name in the modules ``desk.<module>`` of all apps as one, in the apps' order."""
    packages = [import_module(f"{app.name}.desk") for app in apps.get_app_configs() if module_has_submodule(app.module, "desk")]
    modules = [import_module(f"{each.__name__}.{module}") for each in packages if module_has_submodule(each, module)]
    return tuple(contributed for each in modules for contributed in getattr(each, name, []))
