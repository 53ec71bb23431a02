from typing import Any

from django.contrib import admin
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core.checks import CheckMessage, Tags, register


class SupportAdminConfig(SimpleAdminConfig):
    """Django's admin with a site of our own, whose pages are loaded with its paths (``urls``) or to be checked."""

    default_site = "billing.desk.site.SupportSite"

    def ready(self) -> None:
        register(check_dependencies, Tags.admin)
        register(_check_pages, Tags.admin)


def _check_pages(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    admin.autodiscover()
    return check_admin_app(app_configs, **kwargs)
