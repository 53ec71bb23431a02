"""A neighbour's completions beside each attack on what all requests of a process share, as ratios to the neighbour alone.

    make bench ARGS=neighbours
    .venv/bin/python -m bench.neighbours [SECONDS [PART]]

Takes four minutes; with PART, only the attacks in whose line it is. One web process on one core. The neighbour has an account
of its own and 4 clients, each of which sends its next completion when the last one is answered; so has whoever attacks, from
one address. Before each attack the neighbour is measured alone, with the same load: the goal is a rate of 0.4 of that, and 5
times its p95.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import psycopg

from bench import run

NEIGHBOURS, SETTLING_SECONDS = 4, 1.5
RATE_GOAL, P95_GOAL = 0.4, 5
MANY_KEYS, MANY_SESSIONS = 30_000, 1_000
CSRF = "a" * 32
STREAM = {
    "model": "demo/echo",
    "messages": [{"role": "user", "content": "word " * 60}],
    "max_tokens": 200,
    "stream": True,
    "echo": {"delay_seconds": 0.1},
}
# Signs in two people: of an account with many keys, and with many sessions.
FILL = f"""
import json, secrets, time
from allauth.usersessions.models import UserSession
from django.contrib.sessions.backends.db import SessionStore
from billing.models import Account, Membership, User
from keys.models import ApiKey
def sign_in(user):
    now = int(time.time())
    store = SessionStore()
    store.update(dict(_auth_user_id=str(user.pk), _auth_user_backend="billing.sign_in.backend.LimitedBackend",
        _auth_user_hash=user.get_session_auth_hash(), signed_in_at=now, used_at=now, password_given_at=now))
    store.create()
    UserSession.objects.create(user=user, ip="127.0.0.1", session_key=store.session_key, user_agent="bench")
    return store.session_key
def person(name):
    user = User.objects.create_user(name + "@example.org", "correct horse battery staple")
    account = Account.objects.create(name=name)
    Membership.objects.create(account=account, user=user, role="OWNER")
    return user, account
keeper, account = person("keeper")
ApiKey.objects.bulk_create([ApiKey(account=account, name=f"key {{n}}", digest=secrets.token_hex(32), last_four="abcd")
    for n in range({MANY_KEYS})], batch_size=5_000)
visitor, _ = person("visitor")
for _ in range({MANY_SESSIONS}):
    session = sign_in(visitor)
print(json.dumps([sign_in(keeper), session]))
"""


class Attack(NamedTuple):
    """``requests`` are sent in turn by so many clients, each its next one when the last one is answered."""

    name: str
    clients: int
    requests: list[bytes]


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    environ = run.prepared(directory)
    environ |= {"GATEWAY_KEY_REQUESTS_IN_FLIGHT": "100", "GATEWAY_ACCOUNT_REQUESTS_IN_FLIGHT": "400"}  # the defaults
    upstream_port, port = run.free_port(), run.free_port()
    environ["PORT"] = str(port)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        secret = run.fill(environ, directory, upstream_port)
        run.manage(environ, "load_catalog")
        busy = run.account(environ, "busy@example.org")
        sessions = json.loads(run.manage(environ, "shell", "--verbosity=0", "-c", FILL))
        processes.append(run.start([run.PYTHON, "bench/upstream.py", str(upstream_port)], environ, core=1))
        processes.append(run.start([run.PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], environ, core=0))
        run.wait(port)
        completion = run.completion(secret, stream=False)
        run.load(port, NEIGHBOURS, 2, completion)  # warm-up
        with psycopg.connect(environ["DATABASE_URL"], autocommit=True) as connection:
            connection.execute("ANALYZE")  # as PostgreSQL does by itself, some minutes after so many rows
        _report(port, completion, _attacks(port, busy, *sessions), seconds)
        sys.stdout.write(run.manage(environ, "verify_ledger"))
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)
        shutil.rmtree(directory, ignore_errors=True)


def _attacks(port: int, busy: str, keeper: str, visitor: str) -> list[Attack]:
    def get(path: str, cookie: str = "", accept: str = "text/html") -> bytes:
        return (
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: {accept}\r\nCookie: sessionid={cookie}\r\n\r\n"
        ).encode()

    def form(path: str, **fields: str) -> bytes:
        body = urlencode({"csrfmiddlewaretoken": CSRF, **fields}).encode()
        return (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/html\r\nCookie: csrftoken={CSRF}\r\n"
            f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body

    sign_in, login = "/accounts/login/", {"login": "keeper@example.org", "password": "correct horse battery staple"}
    fields = {f"field{number}": "é" * 400 for number in range(900)}
    words = [f"{number:x}{number * 7919:x}" for number in range(500)]
    return [
        Attack("forms of 2.4 MB of a stranger", 2, [form(sign_in, **fields)]),
        Attack("the same, more of them", 4, [form(sign_in, **fields)]),
        Attack("forms of 64 KB of a stranger", 4, [form(sign_in, login="é" * 10_800)]),
        Attack("/docs/reference", 20, [get("/docs/reference")]),
        Attack("/docs/reference?q=, other words each time", 20, [get(f"/docs/reference?q={each}") for each in words]),
        Attack("/rankings?search=, other words each time", 20, [get(f"/rankings?search={each}") for each in words]),
        Attack("/rankings?offset=, other numbers each time", 20, [get(f"/rankings?offset={n}") for n in range(500)]),
        Attack("/models?search=, other words each time", 20, [get(f"/models?search={each}") for each in words]),
        Attack("/api/openapi.json", 20, [get("/api/openapi.json", accept="application/json")]),
        Attack("the page of signing in", 20, [get(sign_in)]),
        Attack("the page of signing up", 20, [get("/accounts/signup/")]),
        Attack("the usage page", 6, [get("/dashboard/usage/", keeper)]),
        Attack(f"the requests of an account with {MANY_KEYS:,} keys", 4, [get("/dashboard/requests/", keeper)]),
        Attack(f"the list of {MANY_KEYS:,} keys", 4, [get("/dashboard/keys/", keeper)]),
        Attack(f"the list of {MANY_SESSIONS:,} sessions", 4, [get("/accounts/sessions/", visitor)]),
        Attack("signing in with the own password", 4, [form(sign_in, **login)]),
        Attack("100 streams of 10 events a second of a key", 100, [run.post(busy, STREAM)]),
    ]


def _report(port: int, completion: bytes, attacks: list[Attack], seconds: float) -> None:
    goals = f"goals: {RATE_GOAL}, {P95_GOAL}"
    sys.stdout.write(f"{'clients of the attack, and what they send':58}  rate    p95  ({goals})  the attack's replies\n")
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    for attack in (each for each in attacks if part in each.name):
        alone = run.load(port, NEIGHBOURS, seconds, completion)
        with _beside(port, attack, seconds + SETTLING_SECONDS + 0.5) as replies:
            time.sleep(SETTLING_SECONDS)
            beside = run.load(port, NEIGHBOURS, seconds, completion)
        rate, p95 = beside["per_second"] / alone["per_second"], beside["p95_ms"] / alone["p95_ms"]
        misses = "" if rate >= RATE_GOAL and p95 <= P95_GOAL else "  misses a goal"
        odd = "" if set(beside["statuses"]) == {"200"} else f"  the neighbour got {beside['statuses']}"
        sys.stdout.write(f"{attack.clients:4} {attack.name:53} {rate:5.2f} {p95:6.1f}  {replies}{odd}{misses}\n")
        sys.stdout.flush()


@contextmanager
def _beside(port: int, attack: Attack, seconds: float) -> Iterator[dict[str, Any]]:
    """Attack while the block runs. The value has the statuses of its replies afterwards."""
    command = run.pinned([run.PYTHON, "bench/load.py", str(port), str(attack.clients), str(seconds)], core=1)
    replies: dict[str, Any] = {}
    with tempfile.TemporaryFile() as file:
        file.write(b"\0".join(attack.requests))
        file.seek(0)
        process = subprocess.Popen(command, cwd=run.ROOT, stdin=file, stdout=subprocess.PIPE)
        yield replies
        replies.update(json.loads(process.communicate(timeout=120)[0])["statuses"])


if __name__ == "__main__":
    main()
