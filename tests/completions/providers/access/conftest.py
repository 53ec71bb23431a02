import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest
from django.core.management import call_command

from completions.catalog import lookup
from completions.providers.access import keeper
from completions.relay import route_health
from tests.completions.providers.access import servers
from tests.completions.providers.access.servers import AccessKeys, CloudServer

Load = Callable[..., None]

_MODEL = """
[models."acme/large"]
name = "Large"
provider = "Acme"
context_window = 128000
max_output_tokens = 4096
price = {{ input = "3.00", output = "15.00", cached_input = "0.30" }}
routes = [{routes}]
"""


@pytest.fixture(autouse=True)
def _fresh(db: None) -> Iterator[None]:
    """Empty what the process remembers of keys and credentials: a keeper of one test would fetch in another."""
    route_health._refusals.clear()
    route_health._probes.clear()
    yield
    gevent.sleep(0)  # what is still to be written to the provider's row is written while there is a database
    for _, kept in keeper.keepers.values():
        kept.end()
    keeper.keepers.clear()


def _with_platform(table: str) -> str:
    """A file must say that an address on loopback stands for a cloud."""
    platforms = {kind: name for kind, name in (("google", "vertex"), ("azure", "azure")) if f'type = "{kind}"' in table}
    return "\n".join([table, *(f'platform = "{name}"' for name in platforms.values() if "platform" not in table)])


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a catalog with a model "acme/large" and its routes, in this order, to providers: name -> its table."""

    def load(**providers: str) -> None:
        tables = [f"[providers.{name}]\n{_with_platform(table)}\n" for name, table in providers.items()]
        routes = [
            f'{{ provider = "{name}", upstream_model = "large-2026", priority = {place} }}'
            for place, name in enumerate(providers, 1)
        ]
        path = tmp_path / "catalog.toml"
        path.write_text("".join([*tables, _MODEL.format(routes=", ".join(routes))]))
        call_command("load_catalog", str(path), verbosity=0)
        lookup._offers.clear()

    return load


@pytest.fixture
def cloud() -> Iterator[CloudServer]:
    """A server of a cloud's credentials. A test gives it its answers."""
    with servers.serving() as server:
        yield server


@pytest.fixture
def keys() -> AccessKeys:
    """Google's access keys."""
    return AccessKeys("ya29.")


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Any:
    """All that is logged, by anybody, at any level."""
    caplog.set_level(logging.DEBUG)
    return caplog
