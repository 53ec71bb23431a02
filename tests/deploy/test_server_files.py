"""`model-gateway init` writes files for this server, and never over others."""

import os
import re
import stat
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from gateway_project import installation
from gateway_project.command_line import server_files

HOST = "gateway.example.org"


def init(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    server_files.main([HOST, *arguments])
    return capsys.readouterr().out


def variables(file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in file.read_text().splitlines() if line and not line.startswith("#"))


def test_a_server_gets_settings_units_and_a_proxy_with_its_names(tmp_path, capsys):
    init(capsys, "--root", str(tmp_path))
    units = {path.name for path in (installation.DEPLOY / "systemd").iterdir()}
    assert {path.name for path in (tmp_path / "etc/systemd/system").iterdir()} == units
    proxy = (tmp_path / "etc/nginx/sites-available/model-gateway").read_text()
    assert f"server_name {HOST};" in proxy
    assert "gateway.example.com" not in proxy
    settings = variables(tmp_path / "etc/model-gateway/gateway.env")
    assert (settings["GATEWAY_API_HOST"], settings["GATEWAY_BASE_HOST"]) == (HOST, HOST)
    assert len(settings["GATEWAY_SECRET_KEY"]) >= 50
    assert len(settings["GATEWAY_KEY_PEPPERS"]) >= 32
    Fernet(settings["GATEWAY_ENCRYPTION_KEYS"])


def test_each_role_has_a_password_of_its_own_which_only_its_file_tells(tmp_path, capsys):
    said = init(capsys, "--root", str(tmp_path))
    folder = tmp_path / "etc/model-gateway"
    serving, owning = (variables(folder / name)["DATABASE_URL"] for name in ("gateway.env", "owner.env"))
    passwords = [url.partition("@")[0].rpartition(":")[2] for url in (serving, owning)]
    assert len(set(passwords)) == 2
    roles = (folder / "roles.sql").read_text()
    assert [f"PASSWORD '{password}'" in roles for password in passwords] == [True, True]
    assert passwords[1] not in (folder / "gateway.env").read_text()
    assert not any(password in said for password in passwords)
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()}
    assert modes == {"gateway.env": "0o640", "owner.env": "0o600", "roles.sql": "0o600"}


def test_a_second_time_keeps_every_file(tmp_path, capsys):
    init(capsys, "--root", str(tmp_path))
    before = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    said = init(capsys, "--root", str(tmp_path))
    assert {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert "wrote" not in said
    assert "roles.sql" not in said


def test_a_server_with_the_settings_of_another_gets_no_passwords_of_its_own(tmp_path, capsys):
    folder = tmp_path / "etc/model-gateway"
    folder.mkdir(parents=True)
    folder.joinpath("gateway.env").write_text("GATEWAY_API_HOST=other\n")
    folder.joinpath("gateway.env").chmod(0o644)  # as `scp` leaves it
    said = init(capsys, "--root", str(tmp_path))
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"gateway.env": "GATEWAY_API_HOST=other\n"}
    assert oct(stat.S_IMODE((folder / "gateway.env").stat().st_mode)) == "0o640"
    assert "roles.sql" not in said
    assert "enable --now model-gateway.target\n" in said  # beat runs on the first server
    assert "model-gateway migrate" not in said


def test_the_files_of_a_compose_project_are_closed_to_others(tmp_path, capsys):
    project = tmp_path / "project"
    said = init(capsys, "--compose", str(project))
    assert stat.S_IMODE(project.stat().st_mode) == 0o700
    assert {"compose.yaml", "Containerfile", "gateway.env", "owner.env", "roles.sql", "model-gateway.conf"} <= set(
        os.listdir(project)
    )
    assert "@postgresql:5432/" in (project / "gateway.env").read_text()
    assert "docker compose run --rm migrate" in said


@pytest.mark.parametrize("host", ["", "https://gateway.example.com", "a b", "-a.example", "$(id).example", "a;b"])
def test_what_is_no_host_name_is_refused_and_nothing_is_written(tmp_path, capsys, host):
    with pytest.raises(SystemExit) as refused:
        server_files.main(["--root", str(tmp_path / "root"), "--", host])
    assert (refused.value.code, os.listdir(tmp_path)) == (2, [])
    assert "argument HOST: " in capsys.readouterr().err


def test_a_directory_that_cannot_be_written_is_named(tmp_path, capsys):
    (tmp_path / "etc").write_text("a file")
    with pytest.raises(SystemExit) as refused:
        server_files.main([HOST, "--root", str(tmp_path)])
    assert str(refused.value).startswith(f"{tmp_path}/etc")


# Of the machine, or written by `init`: what files in deploy/ name that is not shipped.
_ELSEWHERE = {"postgresql.conf", "nginx.conf", "gateway.env", "owner.env"}
_NAMED = re.compile(r"(?<![\w./@-])[\w.-][\w./-]*\.(?:ya?ml|md|py|sql|conf|toml|env|json|txt)\b")


def test_files_that_are_shipped_name_no_file_that_is_not():
    shipped = {path.name for folder in (installation.DEPLOY, installation.CODE / "docs") for path in folder.rglob("*")}
    texts = [
        path for path in installation.DEPLOY.rglob("*") if path.suffix in (".yml", ".yaml", ".md", ".conf", ".sql", ".service")
    ]
    named = {(path.name, name) for path in texts for name in _NAMED.findall(path.read_text())}
    assert {each for each in named if Path(each[1]).name not in shipped | _ELSEWHERE} == set()
