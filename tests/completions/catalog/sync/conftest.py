import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command

from completions.models import LanguageModel, Provider
from gateway_project.net import background_http
from tests.completions.catalog.sync.lists import ListServer, entry, make_model, make_provider
from tests.document_server import serving


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> Iterator[ListServer]:
    """A server that lists acme/large as the catalog has it."""
    monkeypatch.setattr(background_http, "BACKOFF_SECONDS", 0)
    with serving(ListServer) as server:
        server.lists(entry())
        yield server


@pytest.fixture
def barn(lists: ListServer) -> Provider:
    return make_provider(lists)


@pytest.fixture
def large(barn: Provider) -> LanguageModel:
    return make_model(barn)


@pytest.fixture
def sync(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run ``manage.py sync_catalog`` and return its report of one provider, parsed."""

    def sync(*arguments: str) -> dict[str, Any]:
        call_command("sync_catalog", *arguments, "--json")
        [report] = json.loads(capsys.readouterr().out.splitlines()[-1])["providers"]
        return report

    return sync
