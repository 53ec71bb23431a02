"""How long a whole reply is waited for, before another route of its request is asked instead.

Only time tells a long generation from silence. So a model is given twice the time within which nearly all of its last whole
replies came in this process, and UPSTREAM_WHOLE_SECONDS while it had few of them.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial

from django.conf import settings

from gateway_project.deadline import Deadline
from gateway_project.net import http

_REPLIES_MIN, _REPLIES_MAX = 20, 200
_NEARLY_ALL = 0.98
_FACTOR = 2
_SECONDS_MIN = 30  # a long reply of a model whose other replies are short is not given up at once
_AGAIN_SECONDS = 1

# Of each model: the seconds of its last whole replies, each from its own attempt.
reply_seconds: defaultdict[str, deque[float]] = defaultdict(partial(deque, maxlen=_REPLIES_MAX))


def seconds(model_id: str) -> float:
    """Return how long a whole reply of a model is waited for while another route can be asked."""
    known = sorted(reply_seconds.get(model_id, ()))
    if len(known) < _REPLIES_MIN:
        return settings.UPSTREAM_WHOLE_SECONDS
    return max(_FACTOR * known[int(len(known) * _NEARLY_ALL)], _SECONDS_MIN)


class Patience(Deadline):
    """Ends the wait for a whole reply once another route may be asked. The reply sets ``at`` to infinity when it arrives."""

    __slots__ = ("_may_ask_another",)

    def __init__(self, model_id: str, may_ask_another: Callable[[], bool]) -> None:
        super().__init__(seconds(model_id), http.GivenUp("no whole reply in time"))
        self._may_ask_another = may_ask_another

    def ring(self) -> None:
        if self._may_ask_another():
            super().ring()
        else:
            self._ticker.alarms[self] = None
            self.begin(_AGAIN_SECONDS)
