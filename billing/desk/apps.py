from django.contrib.admin.apps import AdminConfig


class SupportAdminConfig(AdminConfig):
    """Django's admin with a site of our own."""

    default_site = "billing.desk.site.SupportSite"
