from collections.abc import Iterator

import pytest

from keys.refusal_history.collector import process_collector


@pytest.fixture(autouse=True)
def _nothing_collected() -> Iterator[None]:
    process_collector.take()
    yield
    process_collector.take()
