from django.apps import AppConfig


class RankingsConfig(AppConfig):
    name = "rankings"

    def ready(self) -> None:
        from rankings import checks  # noqa: F401  registers itself
