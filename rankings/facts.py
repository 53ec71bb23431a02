"""What operators watch of the rankings; ``gateway_project.monitoring.facts`` collects them."""

from gateway_project.monitoring.facts import Fact

FACTS = [
    Fact(
        "gateway_ranking_run_held",
        "1 if the last run of a ranking source was held back, and waits for staff.",
        "SELECT source, 1 FROM rankings_snapshot WHERE held_because <> '' GROUP BY source",
        ("source",),
    ),
]
