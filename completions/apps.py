from django.apps import AppConfig


class CompletionsConfig(AppConfig):
    name = "completions"

    def ready(self) -> None:
        from completions import checks  # noqa: F401  registers them
