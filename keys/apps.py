from django.apps import AppConfig


class KeysConfig(AppConfig):
    name = "keys"

    def ready(self) -> None:
        from billing.account_settings import contributions
        from billing.accounts import spenders
        from keys import lifecycle, summaries

        spenders.register(summaries.find_names)
        contributions.register_erasure(lifecycle.erase_keys)
        contributions.register_table("keys", summaries.read_all)
