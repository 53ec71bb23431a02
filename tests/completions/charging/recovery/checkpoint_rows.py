"""Checkpoints of a stream, and how they grow old."""

from datetime import timedelta

from django.db.models.functions import Now

from completions.charging.recovery import checkpoints
from completions.models import Completion

FIELDS = {
    "model": "demo/echo",
    "messages": [{"role": "user", "content": "Say a lot"}],
    "stream": True,
    "max_tokens": 50,
    "echo": {"reply": "four bytes " * 20},
}


def grow_old():
    old = Now() - checkpoints.ABANDONED_AFTER - timedelta(seconds=1)
    Completion.objects.exclude(checkpointed_at=None).update(checkpointed_at=old)
