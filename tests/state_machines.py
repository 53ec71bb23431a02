"""Hypothesis state machines: random steps, new in each run, whose results are compared with a model.

A failing run prints its seed, and STATE_MACHINE_SEED repeats it. Failing examples are stored in ``.hypothesis/examples`` and
tried first until they pass. Under mutants the runs are the same every time.
"""

import os
import secrets
import sys
from pathlib import Path

from django.db import transaction
from hypothesis import HealthCheck, seed, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

_SEED = int(os.environ.get("STATE_MACHINE_SEED") or secrets.randbits(32))
_EXAMPLES = DirectoryBasedExampleDatabase(Path(__file__).resolve().parent.parent / ".hypothesis" / "examples")


class StateMachine(RuleBasedStateMachine):
    """A state machine whose runs are each rolled back to a savepoint, even after a broken transaction."""

    def __init__(self) -> None:
        super().__init__()
        self._savepoint = transaction.savepoint()

    def finish(self) -> None:
        """Assert what must be true at the end of a run. Called only when no step failed."""

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self.finish()
        finally:
            transaction.savepoint_rollback(self._savepoint)
            transaction.set_rollback(False)


def run(machine: type[StateMachine], *, runs: int, steps: int) -> None:
    """Run the machine ``runs`` times with ``steps`` steps each, within the caller's transaction."""
    configured = settings(max_examples=runs, stateful_step_count=steps, suppress_health_check=list(HealthCheck))
    if settings.get_current_profile_name() != "mutants":
        sys.stdout.write(f"STATE_MACHINE_SEED={_SEED}\n")  # pytest shows it when the test fails
        machine = seed(_SEED)(machine)
        configured = settings(configured, derandomize=False, database=_EXAMPLES, print_blob=True)
    run_state_machine_as_test(machine, settings=configured)
