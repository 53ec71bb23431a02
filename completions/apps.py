from collections.abc import Iterator
from typing import Any

from django.apps import AppConfig

from gateway_project.web import health


class CompletionsConfig(AppConfig):
    name = "completions"

    def ready(self) -> None:
        from billing.account_settings import contributions
        from completions import checks  # noqa: F401  registers them
        from completions.charging import batch
        from completions.charging.recovery import reserve

        contributions.register_table("requests", _read_requests)
        contributions.register_table("responses", _read_responses)
        health.readiness_checks += [reserve.require, batch.require_ready]


def _read_requests(account: Any) -> Iterator[dict[str, Any]]:
    from completions.history import files  # here, because few processes export

    return files.read_all(account)


def _read_responses(account: Any) -> Iterator[dict[str, Any]]:
    from completions.inbound.responses import keeping

    return keeping.read_all(account)
