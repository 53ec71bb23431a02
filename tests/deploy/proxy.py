"""nginx with the file that ships, on free ports and with a certificate of its own."""

import datetime
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gateway_project import installation
from tests import waiting
from tests.gateway_project.local.launch import free_port

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
_SHIPPED = installation.DEPLOY / "nginx"


class Proxy:
    def __init__(self, directory: Path) -> None:
        self.directory, self.port, self.plain_port = directory, free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._write_certificate()
        self._write_configuration()

    @property
    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.directory / "fullchain.pem"))

    def use(self, ports: Sequence[int], down: Sequence[int] = ()) -> None:
        """List the hosts at these ports as the shipped file does; those that are down get nothing new."""
        shipped = (_SHIPPED / "model-gateway-hosts.conf").read_text()
        [line] = re.findall(r"^server 127\.0\.0\.1:8000(.*);$", shipped, re.MULTILINE)
        servers = [f"server 127.0.0.1:{port}{line}{' down' if port in down else ''};\n" for port in ports]
        (self.directory / "model-gateway-hosts.conf").write_text("".join(servers))
        if self.process:
            self._reload()

    def renew_certificate(self, trust: ssl.SSLContext) -> str:
        """Let nginx use another certificate, which ``trust`` knows before. Return it."""
        self._write_certificate()
        trust.load_verify_locations(self.directory / "fullchain.pem")
        self._reload()
        return (self.directory / "fullchain.pem").read_text()

    def _reload(self) -> None:
        workers = self._workers()
        self.run("-s", "reload")
        waiting.until(lambda: self._workers() - workers and not self._is_stale(workers))

    def run(self, *options: str) -> "subprocess.CompletedProcess[str]":
        command = [str(NGINX), "-p", str(self.directory), "-c", str(self.directory / "nginx.conf"), *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    @contextmanager
    def running(self) -> Iterator["Proxy"]:
        command = [str(NGINX), "-p", str(self.directory), "-c", str(self.directory / "nginx.conf"), "-g", "daemon off;"]
        with (self.directory / "log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            waiting.until(lambda: self.process.poll() is not None or self._is_listening())
            assert self.process.poll() is None, (self.directory / "log").read_text()
            yield self
        finally:
            self.process.terminate()
            self.process.wait(waiting.PROCESS_SECONDS_MAX)

    def _is_listening(self) -> bool:
        with socket.socket() as client:
            return (self.directory / "nginx.pid").exists() and client.connect_ex(("127.0.0.1", self.port)) == 0

    def _workers(self) -> set[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return set(map(int, children.read_text().split()))

    def _is_stale(self, workers: set[int]) -> bool:
        """Return whether a worker with the old list still takes connections: such a one has not been told to end."""
        return any(b"shutting down" not in _title(pid) for pid in workers)

    def _write_configuration(self) -> None:
        text = (_SHIPPED / "model-gateway.conf").read_text().replace("gateway.example.com", "localhost")
        text = re.sub(r"/etc/letsencrypt/live/localhost/", f"{self.directory}/", text)
        text = text.replace("/var/log/nginx/", f"{self.directory}/")
        text = re.sub(r"^ *listen \[::\].*\n", "", text, flags=re.MULTILINE)  # a machine of tests may have no IPv6
        text = text.replace("listen 80;", f"listen 127.0.0.1:{self.plain_port};").replace(
            "listen 443 ", f"listen 127.0.0.1:{self.port} "
        )
        (self.directory / "model-gateway.conf").write_text(text)
        temporary = "".join(
            f"{kind}_temp_path {self.directory}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        user = "user root;\n" if os.geteuid() == 0 else ""
        (self.directory / "nginx.conf").write_text(
            f"{user}pid {self.directory}/nginx.pid;\nerror_log {self.directory}/error.log;\nworker_processes 1;\n"
            f"events {{}}\nhttp {{\n{temporary}include model-gateway.conf;\n}}\n"
        )

    def _write_certificate(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        serial_number = x509.random_serial_number()
        name = x509.Name(
            [x509.NameAttribute(NameOID.COMMON_NAME, f"localhost {serial_number:x}")]
        )  # who trusts two tells them apart
        now = datetime.datetime.now(datetime.UTC)
        names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(serial_number)
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(names, critical=False)
            .sign(key, hashes.SHA256())
        )
        (self.directory / "fullchain.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        (self.directory / "privkey.pem").write_bytes(private)


def _title(pid: int) -> bytes:
    """Return what a worker says of itself. One that has ended is past shutting down."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() or b"shutting down"
    except (FileNotFoundError, ProcessLookupError):
        return b"shutting down"
