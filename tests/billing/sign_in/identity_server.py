"""An HTTP server on loopback that signs people in as Google and GitHub do, and keeps their state.

It keeps the person who is signed in there, the codes that it gave out, each of which works once, for its client, its return
address and the verifier that it was asked for with (PKCE), and the access tokens.
"""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from allauth.socialaccount.providers.github.views import GitHubOAuth2Adapter
from allauth.socialaccount.providers.google import views as google

CLIENT_ID, CLIENT_SECRET = "client-1", "a secret of the client"
Json = dict[str, Any]


@dataclass
class Person:
    """Somebody with an account there: Google has the first address only."""

    id: str
    emails: list[tuple[str, bool]]  # address, whether it is verified; the first is the primary one
    login: str = "ann"


@dataclass
class IdentityServer:
    """The state. ``person`` is who is signed in there: None declines."""

    origin: str
    person: Person | None = None
    is_down: bool = False
    issuer: str = ""  # of ID tokens
    audience: str = CLIENT_ID
    codes: dict[str, Json] = field(default_factory=dict)
    tokens: dict[str, Person] = field(default_factory=dict)
    asked: list[Json] = field(default_factory=list)  # what people were sent with
    exchanges: int = 0  # of codes for tokens

    def authorize(self, path: str, query: Json) -> str:
        """Return where the browser is sent back to."""
        self.asked.append(query)
        assert query["client_id"] == CLIENT_ID
        assert query["code_challenge_method"] == "S256"
        back = {"state": query["state"]}
        if self.person is None:
            return f"{query['redirect_uri']}?{urlencode({**back, 'error': 'access_denied'})}"
        code = secrets.token_urlsafe(16)
        self.codes[code] = {**query, "person": self.person}
        return f"{query['redirect_uri']}?{urlencode({**back, 'code': code})}"

    def exchange(self, path: str, form: Json) -> tuple[int, Json]:
        """Return the tokens for a code."""
        self.exchanges += 1
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        is_client = (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        if not (asked and is_client and asked["redirect_uri"] == form["redirect_uri"] and asked["code_challenge"] == challenge):
            return 400, {"error": "invalid_grant"}
        token, person = secrets.token_urlsafe(16), asked["person"]
        self.tokens[token] = person
        tokens = {"access_token": token, "token_type": "bearer", "scope": asked["scope"]}
        return 200, {**tokens, "id_token": self._id_token(person)} if path == "/token" else tokens

    def _id_token(self, person: Person) -> str:
        email, is_verified = person.emails[0]
        times = {"iat": int(time.time()), "exp": int(time.time()) + 3_600}
        whose = {"iss": self.issuer or self.origin, "aud": self.audience, "sub": person.id}
        facts = {"email": email, "email_verified": is_verified, "name": "Ann Example", "picture": "https://example.org/ann"}
        return jwt.encode({**whose, **times, **facts}, "a key that nobody but the provider has", algorithm="HS256")

    def show(self, path: str, authorization: str) -> tuple[int, Any]:
        """Return what GitHub tells of the token's person."""
        person = self.tokens.get(authorization.removeprefix("token "))
        if person is None:
            return 401, {"message": "Bad credentials"}
        if path == "/user":
            return 200, {"id": int(person.id), "login": person.login, "email": None, "avatar_url": "https://example.org/ann"}
        addresses = enumerate(person.emails)
        return 200, [{"email": email, "verified": is_verified, "primary": i == 0} for i, (email, is_verified) in addresses]


@contextmanager
def serving(settings: Any, monkeypatch: Any) -> Iterator[IdentityServer]:
    """Serve, as the Google and the GitHub of this process, both configured."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            if url.path in ("/user", "/user/emails"):
                self._send(*server.show(url.path, self.headers.get("Authorization", "")))
            else:
                self._send(302, {}, Location=server.authorize(url.path, dict(parse_qsl(url.query))))

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, reply = server.exchange(self.path, dict(parse_qsl(form)))
            self._send(*(503, {}) if server.is_down else (status, reply))

        def _send(self, status: int, reply: Any, **headers: str) -> None:
            body = json.dumps(reply).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = IdentityServer(f"http://127.0.0.1:{httpd.server_address[1]}")
    apps = {"APPS": [{"client_id": CLIENT_ID, "secret": CLIENT_SECRET}], "OAUTH_PKCE_ENABLED": True}
    settings.SOCIALACCOUNT_PROVIDERS = {
        "google": {**apps, "SCOPE": ["openid", "email"]},
        "github": {**apps, "SCOPE": ["user:email"]},
    }
    # Allauth reads its own settings of these addresses once, when it is imported.
    monkeypatch.setattr(google, "ID_TOKEN_ISSUER", server.origin)
    monkeypatch.setattr(google.GoogleOAuth2Adapter, "authorize_url", f"{server.origin}/authorize")
    monkeypatch.setattr(google.GoogleOAuth2Adapter, "access_token_url", f"{server.origin}/token")
    monkeypatch.setattr(GitHubOAuth2Adapter, "authorize_url", f"{server.origin}/login/oauth/authorize")
    monkeypatch.setattr(GitHubOAuth2Adapter, "access_token_url", f"{server.origin}/login/oauth/access_token")
    monkeypatch.setattr(GitHubOAuth2Adapter, "profile_url", f"{server.origin}/user")
    monkeypatch.setattr(GitHubOAuth2Adapter, "emails_url", f"{server.origin}/user/emails")
    thread = Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()
