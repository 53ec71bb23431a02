"""What replaces functions of gunicorn's on the way of every request does what they do."""

from types import SimpleNamespace

import pytest
from gunicorn import util
from gunicorn.config import Config
from gunicorn.http import wsgi
from gunicorn.http.body import Body, LengthReader
from gunicorn.http.message import HeaderPolicy
from gunicorn.http.parser import Parser
from gunicorn.http.unreader import IterUnreader

from gateway_project.web.gunicorn import internals


@pytest.mark.parametrize("allowed", ["127.0.0.1", "10.0.0.0/8,::1", "*", ""])
def test_a_peer_is_trusted_as_by_gunicorn_each_time_that_it_asks(allowed):
    cfg = Config()
    cfg.set("forwarded_allow_ips", allowed)
    for address in [("127.0.0.1", 1), ("10.1.2.3", 1), ("::1", 1, 0, 0), ("nowhere", 1), "", b"", ("10.1.2.3", 2)]:
        request = SimpleNamespace(cfg=cfg, peer_addr=address)
        expected = HeaderPolicy._peer_is_trusted_proxy(request)
        assert internals.peer_is_trusted_proxy(request) == expected, address


def test_a_date_is_written_as_by_gunicorn():
    for moment in (0.0, 1_700_000_000.2, 1_700_000_000.9, 1_700_000_001.0):
        assert internals.http_date(moment) == util.http_date(moment)
    before, now, after = util.http_date(), internals.http_date(), util.http_date()
    assert now in (before, after)


def test_each_request_has_an_environ_of_its_own():
    cfg = Config()
    first, second = internals.base_environ(cfg), internals.base_environ(cfg)
    first["HTTP_X_SECRET"] = "of the first"
    assert second.keys() == wsgi.base_environ(cfg).keys()
    assert {name: value for name, value in second.items() if name != "wsgi.errors"} == {
        name: value for name, value in wsgi.base_environ(cfg).items() if name != "wsgi.errors"
    }


@pytest.mark.parametrize(("length", "failed", "left"), [(5, False, 0), (5, False, 3), (5, True, 0), (0, False, 0)])
def test_what_was_not_read_of_a_body_is_discarded_as_by_gunicorn(length, failed, left):
    def outcome(finish_body):
        unreader = IterUnreader([b"abcdeGET /"])
        body = Body(LengthReader(unreader, length))
        body.read(length - left)
        body.failed = failed
        parser = SimpleNamespace(mesg=SimpleNamespace(body=body), unreader=unreader)
        return finish_body(parser), unreader.read(3)

    assert outcome(internals.finish_body) == outcome(Parser.finish_body)


def test_before_the_first_request_there_is_no_body_to_discard():
    assert internals.finish_body(SimpleNamespace(mesg=None)) is True
