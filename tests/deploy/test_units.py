"""The units of systemd: its own tool accepts them, and they do what the page promises."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway_project import installation
from gateway_project.command_line import server_files

UNITS = installation.DEPLOY / "systemd"
SERVICES = ("web", "worker", "beat")


def unit(name: str) -> configparser.SectionProxy:
    # A name may stand several times in systemd's files; the last one counts here.
    parser = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes=("#",), delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNITS / f"model-gateway-{name}.service")
    return parser["Service"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_every_unit(tmp_path):
    for path in UNITS.iterdir():
        # This machine has neither the command nor its user.
        text = path.read_text().replace("/opt/model-gateway/bin/model-gateway", shutil.which("true"))
        (tmp_path / path.name).write_text(text.replace("=model-gateway\n", "=daemon\n").replace("User=postgres", "User=daemon"))
    command = ["systemd-analyze", "verify", "--recursive-errors=yes", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    of_ours = [line for line in done.stderr.splitlines() if "model-gateway" in line]
    assert (done.returncode, of_ours) == (0, [])


@pytest.mark.parametrize("name", SERVICES)
def test_each_process_runs_without_privileges_and_sees_the_system_read_only(name):
    service = unit(name)
    wanted = {"NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "ProtectSystem": "strict", "ProtectHome": "yes"}
    wanted |= {"PrivateTmp": "yes", "PrivateDevices": "yes", "User": "model-gateway", "UMask": "0077"}
    assert {key: service[key] for key in wanted} == wanted
    assert service["ExecStart"] == f"/opt/model-gateway/bin/model-gateway {name}"
    assert (service["StateDirectory"], service["RuntimeDirectory"]) == ("model-gateway", f"model-gateway-{name}")
    assert service["Environment"] == f"PROMETHEUS_MULTIPROC_DIR=/run/model-gateway-{name}"


def test_a_stop_waits_longer_than_running_requests_may_take(tmp_path):
    server_files.main(["gateway.example.com", "--root", str(tmp_path)])
    settings = (tmp_path / "etc/model-gateway/gateway.env").read_text()
    [grace] = [line for line in settings.splitlines() if line.startswith("GATEWAY_GRACEFUL_TIMEOUT_SECONDS=")]
    assert int(unit("web")["TimeoutStopSec"]) == int(grace.partition("=")[2]) + 15
    assert (unit("web")["KillMode"], unit("web")["ExecReload"]) == ("mixed", "/bin/kill -HUP $MAINPID")


def test_every_timer_has_its_service():
    for timer in UNITS.glob("*.timer"):
        assert Path(timer).with_suffix(".service").exists()


@pytest.mark.skipif(not shutil.which("systemctl"), reason="systemd is not installed")
def test_beat_starts_with_the_others_only_where_it_is_enabled(tmp_path):
    server_files.main(["gateway.example.com", "--root", str(tmp_path)])
    units = tmp_path / "etc/systemd/system"
    enable = ["systemctl", f"--root={tmp_path}", "enable"]
    subprocess.run([*enable, "model-gateway.target"], check=True, capture_output=True)
    target = (units / "model-gateway.target").read_text()
    assert [f"model-gateway-{name}.service" in target for name in SERVICES] == [True, True, False]
    assert not list(units.glob("*.wants/model-gateway-beat.service"))
    subprocess.run([*enable, "model-gateway-beat"], check=True, capture_output=True)
    assert {str(path.relative_to(units)) for path in units.glob("*.wants/*")} == {
        "multi-user.target.wants/model-gateway.target",
        "model-gateway.target.wants/model-gateway-beat.service",
    }
