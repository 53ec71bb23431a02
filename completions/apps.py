from django.apps import AppConfig

from gateway_project.web import health


class CompletionsConfig(AppConfig):
    name = "completions"

    def ready(self) -> None:
        from completions import checks  # noqa: F401  registers them
        from completions.charging import batch, reserve

        health.readiness_checks += [reserve.require, batch.require_ready]
