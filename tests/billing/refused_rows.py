"""What the database itself refuses."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import IntegrityError, transaction

from tests import usage


@contextmanager
def refused(by: str) -> Iterator[None]:
    """Expect the database to refuse the block, at once or by a check deferred to the commit, with this message."""
    with pytest.raises(IntegrityError, match=by), transaction.atomic():  # noqa: PT012  the block is the caller's
        yield
        usage.check_deferred()
