"""State machines: Hypothesis does anything in any order, differently each time, and a model says what must come of it.

A run's seed is printed when it fails, and ``MACHINE_SEED`` gives it again. What failed is kept in ``.hypothesis/examples`` and
tried first from then on, until it passes. Where mutants are loose the runs are the same every time.
"""

import os
import secrets
import sys
from pathlib import Path

from django.db import transaction
from hypothesis import HealthCheck, seed, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

_SEED = int(os.environ.get("MACHINE_SEED") or secrets.randbits(32))
_KEPT = DirectoryBasedExampleDatabase(Path(__file__).resolve().parent.parent / ".hypothesis" / "examples")


class Machine(RuleBasedStateMachine):
    """Each run is within a savepoint, and leaves nothing to the next, even where it broke the transaction."""

    def __init__(self) -> None:
        super().__init__()
        self._savepoint = transaction.savepoint()

    def finish(self) -> None:
        """What must be true at the end of a run that did not fail before."""

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self.finish()
        finally:
            transaction.savepoint_rollback(self._savepoint)
            transaction.set_rollback(False)


def run(machine: type[Machine], *, runs: int, steps: int) -> None:
    """So many runs of so many steps, in a transaction of the caller's."""
    moderate = settings(max_examples=runs, stateful_step_count=steps, suppress_health_check=list(HealthCheck))
    if settings.get_current_profile_name() != "mutants":
        sys.stdout.write(f"MACHINE_SEED={_SEED}\n")  # shown when it fails
        machine = seed(_SEED)(machine)
        moderate = settings(moderate, derandomize=False, database=_KEPT, print_blob=True)
    run_state_machine_as_test(machine, settings=moderate)
