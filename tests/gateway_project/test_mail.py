"""Mail on a developer's machine, and how a deployment without a mail server is told."""

import re
from pathlib import Path

import pytest
from django.core.mail import get_connection, send_mail
from django.test import Client

from gateway_project import checks, mail


@pytest.fixture
def directory(settings, tmp_path):
    settings.MAIL_DIR = tmp_path / "mail"
    settings.EMAIL_BACKEND = "gateway_project.mail.DirectoryBackend"
    return settings.MAIL_DIR


def test_a_developers_mails_are_files_lines_on_the_console_and_a_page(directory, capsys, db):
    send_mail("The first", "See http://localhost/a?b=c and <b>", None, ["ann@example.org"])
    send_mail("The second", "Later.", None, ["bob@example.org"])
    assert "Mail to ann@example.org: The first" in capsys.readouterr().err
    assert len(list(directory.glob("*.eml"))) == 2
    assert directory.stat().st_mode & 0o777 == 0o700
    page = Client().get("/mails/").content.decode()
    assert page.index("The second") < page.index("The first")
    assert '<a href="http://localhost/a?b=c"' in page
    assert "&lt;b&gt;" in page


def test_a_deployment_has_no_page_of_mails(settings):
    settings.MAIL_DIR = None
    assert Client().get("/mails/", headers={"accept": "text/html"}).status_code == 404


def test_without_a_mail_server_sending_fails(settings):
    settings.EMAIL_BACKEND = "gateway_project.mail.NoBackend"
    with pytest.raises(mail.NoMailServer):
        send_mail("Lost", "", None, ["ann@example.org"])


def test_a_mail_server_that_is_away_is_an_error_of_the_network(settings):
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9
    backend = get_connection("gateway_project.mail.SMTPBackend")
    with pytest.raises(OSError, match="refused"):
        send_mail("Lost", "", None, ["ann@example.org"], connection=backend)


def test_a_deployment_whose_mails_can_have_no_links_is_warned(settings):
    settings.SENDS_MAIL, settings.GATEWAY_DEVELOPMENT = True, False
    assert [message.id for message in checks.check_mail()] == ["gateway.W011"]
    settings.GATEWAY_BASE_HOST = "www.example.com"
    assert checks.check_mail() == []


def test_all_mail_is_sent_in_one_place():
    """There it is limited."""
    senders = re.compile(r"EmailMessage\(|EmailMultiAlternatives|(?<!_)send_mail\(|send_mass_mail|mail_admins|\.email_user\(")
    root = Path(checks.__file__).parent.parent
    modules = [
        path for app in ("billing", "keys", "completions", "rankings", "gateway_project") for path in (root / app).rglob("*.py")
    ]
    assert [path.name for path in modules if senders.search(path.read_text())] == ["mails.py"]


def test_a_deployment_without_a_mail_server_is_warned(settings):
    settings.SENDS_MAIL = False
    assert [message.id for message in checks.check_mail()] == ["gateway.W010"]
    settings.SENDS_MAIL = True
    assert checks.check_mail() == []
