"""Metrics that the processes of a host share through a directory."""

import os
import subprocess
import sys

from gateway_project.local import development


def test_a_command_makes_the_missing_directory(tmp_path):
    shared = tmp_path / "not" / "there"
    environ = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(shared)}
    done = subprocess.run(
        [sys.executable, "manage.py", "check"], env=environ, cwd=development.ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert list(shared.glob("counter_*.db"))


def test_a_later_process_shows_what_an_earlier_one_counted(tmp_path):
    environ = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}

    def run(code: str) -> str:
        arguments = [sys.executable, "-c", f"from gateway_project import metrics; {code}"]
        return subprocess.run(
            arguments, env=environ, cwd=development.ROOT, capture_output=True, text=True, timeout=300, check=True
        ).stdout

    run("metrics.outbox_stored_total.inc(2)")
    assert "gateway_outbox_stored_total 2.0" in run("print(metrics.render().decode())").splitlines()


def test_sums_of_a_second_show_what_each_request_would_have_shown(tmp_path):
    seconds = (0.001, 0.005, 0.0051, 3.0, 75.0)

    def run(count: str, directory: str) -> list[str]:
        environ = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / directory)}
        setup = "from gateway_project import metrics; h = metrics.request_seconds.labels('v1')"
        arguments = [sys.executable, "-c", f"{setup}; {count}; print(metrics.render().decode())"]
        done = subprocess.run(
            arguments, env=environ, cwd=development.ROOT, capture_output=True, text=True, timeout=300, check=True
        )
        return [line for line in done.stdout.splitlines() if line.startswith("gateway_request_seconds")]

    summed = run(f"metrics._observe_all(h, {seconds})", "summed")
    assert summed == run(f"[h.observe(each) for each in {seconds}]", "one by one")
    assert 'gateway_request_seconds_count{route="v1"} 5.0' in summed
