from django.apps import AppConfig


class BillingConfig(AppConfig):
    name = "billing"

    def ready(self) -> None:
        from billing.payments import checks as payment_checks  # noqa: F401  registers its checks
