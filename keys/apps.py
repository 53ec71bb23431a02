from django.apps import AppConfig


class KeysConfig(AppConfig):
    name = "keys"

    def ready(self) -> None:
        from billing import spenders
        from keys import summaries

        spenders.register(summaries.find_names)
