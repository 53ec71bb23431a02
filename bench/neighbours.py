"""A neighbour's completions beside each attack on what all requests of a process share, as ratios to the neighbour alone.

    make bench ARGS=neighbours
    .venv/bin/python -m bench.neighbours [SECONDS [KEYS [PART]]]

Takes four minutes; with PART, only the attacks in whose line it is. One web process on one core. The neighbour has an account
of its own and 4 clients, each of which sends its next completion when the last one is answered; so has whoever attacks, from
one address. One account has 30,000 keys, or KEYS. Before each attack the neighbour is measured alone, with the same load: the
goal is a rate of 0.4 of that, and 5 times its p95.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import urlencode

import psycopg

from bench import run

NEIGHBOURS, SETTLING_SECONDS = 4, 1.5
RATE_GOAL, P95_GOAL = 0.4, 5
GOALS = f"goals: {RATE_GOAL}, {P95_GOAL}"
MANY_SESSIONS = 1_000
CSRF = "a" * 32
STREAM = {"model": "demo/echo", "messages": [{"role": "user", "content": "word " * 60}], "max_tokens": 200}
STREAM |= {"stream": True, "echo": {"delay_seconds": 0.1}}
# Signs in two people: of an account with many keys, and with many sessions.
FILL = """
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
ApiKey.objects.bulk_create([ApiKey(account=account, name=f"key {n}", digest=secrets.token_hex(32), last_four="abcd")
    for n in range(%(keys)s)], batch_size=5_000)
visitor, _ = person("visitor")
for _ in range(%(sessions)s):
    session = sign_in(visitor)
print(json.dumps([sign_in(keeper), session]))
"""


class Attack(NamedTuple):
    """``requests`` are sent in turn by so many clients, each its next one when the last one is answered."""

    name: str
    clients: int
    requests: list[bytes]


def main() -> None:
    [seconds, keys], part = run.numbers(sys.argv[1:3], 3, 30_000), "".join(sys.argv[3:])
    with run.Servers() as servers:
        environ = run.prepared(servers.directory)
        environ |= {"GATEWAY_KEY_REQUESTS_IN_FLIGHT": "100", "GATEWAY_ACCOUNT_REQUESTS_IN_FLIGHT": "400"}  # the defaults
        secret = run.fill(environ, servers.directory, servers.upstream())
        run.manage(environ, "load_catalog")
        busy = run.account(environ, "busy@example.org")
        sessions = json.loads(run.execute_code(environ, FILL % {"keys": int(keys), "sessions": MANY_SESSIONS}))
        port, completion = servers.gateway(environ), run.completion(secret, stream=False)
        run.load(port, NEIGHBOURS, min(2, seconds), completion)  # warm-up
        with psycopg.connect(environ["DATABASE_URL"], autocommit=True) as connection:
            connection.execute("ANALYZE")  # as PostgreSQL does by itself, some minutes after so many rows
        run.write_line(f"{'clients of the attack, and what they send':58}  rate    p95  ({GOALS})  the attack's replies")
        for attack in _attacks(port, busy, *sessions):
            if part in attack.name:
                run.write_line(_measured(port, completion, attack, seconds))
        run.write_line(run.manage(environ, "verify_ledger"))


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
        Attack("the requests of an account with many keys", 4, [get("/dashboard/requests/", keeper)]),
        Attack("the list of many keys", 4, [get("/dashboard/keys/", keeper)]),
        Attack(f"the list of {MANY_SESSIONS:,} sessions", 4, [get("/accounts/sessions/", visitor)]),
        Attack("signing in with the own password", 4, [form(sign_in, **login)]),
        Attack("100 streams of 10 events a second of a key", 100, [run.post(busy, STREAM)]),
    ]


def _measured(port: int, completion: bytes, attack: Attack, seconds: float) -> str:
    settling_seconds = min(SETTLING_SECONDS, seconds)
    attack_seconds = settling_seconds + seconds + 0.5
    alone = run.load(port, NEIGHBOURS, seconds, completion)
    with ThreadPoolExecutor(1) as background:
        attacking = background.submit(run.load, port, attack.clients, attack_seconds, b"\0".join(attack.requests))
        time.sleep(settling_seconds)
        beside = run.load(port, NEIGHBOURS, seconds, completion)
    rate, p95 = beside["per_second"] / alone["per_second"], beside["p95_ms"] / alone["p95_ms"]
    misses = "" if rate >= RATE_GOAL and p95 <= P95_GOAL else "  misses a goal"
    odd = f"  the neighbour got{run.odd(beside)}" if run.odd(beside) else ""
    return f"{attack.clients:4} {attack.name:53} {rate:5.2f} {p95:6.1f}  {attacking.result()['statuses']}{odd}{misses}"


if __name__ == "__main__":
    main()
