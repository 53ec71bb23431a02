from django.apps import AppConfig


class KeysConfig(AppConfig):
    name = "keys"

    def ready(self) -> None:
        from billing import spenders
        from keys import (
            openapi,  # noqa: F401  registers the security scheme
            summaries,
        )
        from keys.key_api import openapi as key_api_openapi  # noqa: F401  the same

        spenders.register(summaries.find_names)
