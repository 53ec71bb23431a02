from django.apps import AppConfig


class KeysConfig(AppConfig):
    name = "keys"

    def ready(self) -> None:
        from keys import openapi  # noqa: F401  registers the security scheme
