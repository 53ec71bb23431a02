"""All metrics that the code declares."""

import re
from pathlib import Path

from prometheus_client.metrics import MetricWrapperBase

from gateway_project import metrics
from gateway_project.monitoring import collector, facts


def declared_metrics() -> dict[str, str]:
    """Return the labels of each metric by its name."""
    declared = {}
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            [family] = metric.describe()
            declared[family.name + ("_total" if family.type == "counter" else "")] = ", ".join(metric._labelnames)
    declared |= {fact.name: ", ".join(fact.labels) for fact in facts.declared(facts.Fact)}
    declared |= {gauge.name: "host" for gauge in facts.declared(facts.HostGauge)}
    gauge = re.compile(r'_gauge\("(gateway_\w+)".*?(?:\["(\w+)"\]\))?$', re.MULTILINE)
    declared |= dict(gauge.findall(Path(collector.__file__).read_text()))
    return declared
