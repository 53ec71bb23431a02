"""The Compose project and the Kubernetes objects hold what docs/operating/installing.md says. No container runs here."""

import shutil
import subprocess
from typing import Any

import pytest
import yaml

from gateway_project import installation
from gateway_project.command_line import server_files

KUBERNETES = installation.DEPLOY / "kubernetes"
OURS = ("migrate", "web", "worker", "beat")


@pytest.fixture
def compose(tmp_path) -> dict[str, Any]:
    server_files.main(["gateway.example.org", "--compose", str(tmp_path)])
    return yaml.safe_load((tmp_path / "compose.yaml").read_text())


@pytest.fixture(scope="module")
def objects() -> dict[str, dict[str, Any]]:
    """The objects by kind and name, without Kustomize."""
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
    found = [each for name in listed for each in yaml.safe_load_all((KUBERNETES / name).read_text())]
    assert {path.name for path in KUBERNETES.iterdir()} == {"kustomization.yaml", *listed}
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in found}


def pods(objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        spec["containers"][0]["name"]: spec
        for each in objects.values()
        if (spec := each.get("spec", {}).get("template", {}).get("spec"))
    }


def test_the_gateway_runs_without_root_and_without_a_writable_system(compose, objects):
    for name in OURS:
        service = compose["services"][name]
        assert (service["read_only"], service["cap_drop"], service["command"]) == (True, ["ALL"], [name])
        assert service["security_opt"] == ["no-new-privileges:true"]
        pod = pods(objects)[name]
        [container] = pod["containers"]
        assert (container["args"], pod["securityContext"]["runAsNonRoot"]) == ([name], True)
        rights = container["securityContext"]
        assert (rights["readOnlyRootFilesystem"], rights["allowPrivilegeEscalation"]) == (True, False)
        assert rights["capabilities"] == {"drop": ["ALL"]}
    image = (installation.DEPLOY / "container" / "Containerfile").read_text()
    assert "\nUSER 10001:10001\n" in image
    assert "--require-hashes" in image


def test_only_the_migration_knows_the_role_that_owns_the_tables(compose, objects):
    knowing = {name for name, each in compose["services"].items() if "owner" in str(each.get("secrets"))}
    assert knowing == {"migrate", "backup"}
    assert {name for name, pod in pods(objects).items() if "model-gateway-owner" in str(pod)} == {"migrate"}


def test_every_file_that_the_project_names_is_written(compose, tmp_path):
    named = [each["file"] for each in compose["secrets"].values()]
    mounts = [mount for each in compose["services"].values() for mount in each.get("volumes", []) if mount.startswith("./")]
    files = {path.partition(":")[0] for path in [*named, *mounts]} - {"./tls", "./backup"}
    assert [path for path in sorted(files) if not (tmp_path / path).is_file()] == []
    assert "./tls:/etc/letsencrypt/live/gateway.example.org:ro" in mounts


def test_running_requests_have_their_time_before_anything_is_killed(compose, objects):
    settings = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["configMapGenerator"][0]["literals"]
    [grace] = [int(each.partition("=")[2]) for each in settings if each.startswith("GATEWAY_GRACEFUL_TIMEOUT_SECONDS=")]
    pod = pods(objects)["web"]
    [_, pause] = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert pod["terminationGracePeriodSeconds"] >= int(pause) + grace + 15
    assert int(compose["services"]["web"]["stop_grace_period"].removesuffix("s")) >= grace + 15


def test_a_pod_is_asked_whether_it_is_ready_and_one_at_a_time_may_go(objects):
    [web] = pods(objects)["web"]["containers"]
    asked = {kind: web[kind]["httpGet"]["path"] for kind in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert asked == {"startupProbe": "/healthz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"}
    budget = objects["PodDisruptionBudget/model-gateway-web"]["spec"]
    assert budget == {"maxUnavailable": 1, "selector": objects["StatefulSet/model-gateway-web"]["spec"]["selector"]}
    scaled = objects["HorizontalPodAutoscaler/model-gateway-web"]["spec"]
    assert (scaled["minReplicas"], scaled["metrics"][0]["external"]["metric"]["name"]) == (2, "gateway_holds_open")
    assert objects["Deployment/model-gateway-beat"]["spec"]["strategy"] == {"type": "Recreate"}


def volumes(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the volumes of a pod by the path at which its container has them."""
    by_name = {each["name"]: each for each in pod["volumes"]}
    mounts = pod["containers"][0]["volumeMounts"]
    return {each["mountPath"]: by_name.get(each["name"], {"name": each["name"]}) for each in mounts}


def volume_of(pod: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the volume on which a path is."""
    return max(
        ((place, each) for place, each in volumes(pod).items() if path.startswith(f"{place}/")), key=lambda found: len(found[0])
    )[1]


KEPT = {  # by the setting: who writes there
    "GATEWAY_OUTBOX_DIR": ("web", "worker"),
    "GATEWAY_ARCHIVE_DIR": ("worker",),
}


@pytest.mark.parametrize("setting", KEPT)
def test_what_must_outlive_a_pod_is_on_a_disk_that_all_pods_share(objects, setting):
    """A pod that is scaled down, or moved, leaves nothing behind that another one does not find."""
    [configuration] = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["configMapGenerator"]
    path = dict(each.split("=", 1) for each in configuration["literals"])[setting]
    claim = objects["PersistentVolumeClaim/model-gateway-shared"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for name in KEPT[setting]:
        assert volume_of(pods(objects)[name], path)["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"]}


def test_each_pod_that_has_metrics_is_scraped(objects):
    scraped = {}
    for each in objects.values():
        template = each.get("spec", {}).get("template", {})
        for container in template.get("spec", {}).get("containers", []):
            ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
            if "metrics" in ports:
                scraped[container["name"]] = template["metadata"].get("annotations"), str(ports["metrics"])
    assert set(scraped) == {"web", "worker"}
    for annotations, port in scraped.values():
        assert annotations == {"prometheus.io/scrape": "true", "prometheus.io/port": port, "prometheus.io/path": "/metrics"}


def test_the_journal_and_the_outbox_outlive_their_process(compose, objects):
    [claim] = objects["StatefulSet/model-gateway-web"]["spec"]["volumeClaimTemplates"]
    assert volumes(pods(objects)["web"])["/var/lib/model-gateway"]["name"] == claim["metadata"]["name"]
    assert compose["services"]["web"]["volumes"] == ["gateway:/var/lib/model-gateway"]
    assert "gateway" in compose["volumes"]


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
def test_kustomize_renders_the_base():
    done = subprocess.run(["kubectl", "kustomize", str(KUBERNETES)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rendered = [each for each in yaml.safe_load_all(done.stdout) if "template" in each.get("spec", {})]
    images = {each["spec"]["template"]["spec"]["containers"][0]["image"] for each in rendered}
    assert (len(rendered), images) == (4, {f"registry.example.com/model-gateway:{installation.VERSION}"})
