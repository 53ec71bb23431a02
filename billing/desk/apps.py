import re
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core.checks import CheckMessage, Tags, register

_ABBREVIATIONS = re.compile(r"\b(api|id|url)\b")


class SupportAdminConfig(SimpleAdminConfig):
    """Django's admin with a site of our own, whose pages are loaded with its paths (``urls``) or to be checked."""

    default_site = "billing.desk.site.SupportSite"

    def ready(self) -> None:
        register(check_dependencies, Tags.admin)
        register(_check_pages, Tags.admin)
        for field in (field for model in apps.get_models() for field in model._meta.local_fields):
            if isinstance(field.verbose_name, str):  # not translated: one of ours
                field.verbose_name = _ABBREVIATIONS.sub(lambda found: found[0].upper(), field.verbose_name)


def _check_pages(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    admin.autodiscover()
    return check_admin_app(app_configs, **kwargs)
