"""INTERNAL: this gateway's own ranking. It is computed from the other sources, prices and measured speeds, not fetched."""

from datetime import timedelta

from rankings.models import Source
from rankings.sources.base import SourceSpec

SPEC = SourceSpec(source=Source.INTERNAL, title="This gateway", cadence=timedelta(hours=1), age_max=timedelta(hours=2))
