from collections.abc import Iterator

import pytest

from tests import cells


@pytest.fixture
def second(db: None) -> Iterator[int]:
    """The number of a second cell."""
    with cells.added() as number:
        yield number
