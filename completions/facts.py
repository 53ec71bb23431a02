"""What operators watch of completions; ``gateway_project.monitoring.facts`` collects them."""

from completions.charging import outbox
from gateway_project.monitoring.facts import Fact, HostGauge

FACTS = [
    Fact(
        "gateway_circuits_hinted",
        "Routes that failed for some process, which told the others that its circuit is open.",
        "SELECT provider_id, count(*) FILTER (WHERE rests_until > now()) FROM completions_route GROUP BY provider_id",
        ("provider",),
    ),
]

HOST_GAUGES = [
    HostGauge("gateway_outbox_waiting", "Settlements that wait on the host's disk.", lambda: len(outbox.waiting_files())),
    HostGauge("gateway_dead_letters", "Dead letters on the host's disk.", lambda: len(outbox.dead_letters())),
]
