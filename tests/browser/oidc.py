"""An OpenID Connect provider on loopback, as small as a sign-in needs: it asks who one is and believes it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "lab", "a secret of the test"
PEOPLE = ("ada@example.org", "eve@elsewhere.org")


@contextmanager
def provider() -> Iterator[str]:
    """Its address while it runs."""
    key = RSAKey.generate_key(2048, {"kid": "1", "use": "sig", "alg": "RS256"})
    codes: dict[str, dict[str, str]] = {}

    class Provider(BaseHTTPRequestHandler):
        def log_message(self, *what: object) -> None:
            pass

        def _say(self, body: object, kind: str = "application/json") -> None:
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _go(self, address: str) -> None:
            self.send_response(302)
            self.send_header("Location", address)
            self.end_headers()

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            asked = dict(parse_qsl(url.query))
            if url.path == "/.well-known/openid-configuration":
                self._say(
                    {
                        "issuer": base,
                        "authorization_endpoint": f"{base}/authorize",
                        "token_endpoint": f"{base}/token",
                        "jwks_uri": f"{base}/jwks",
                        "end_session_endpoint": f"{base}/end",
                        "code_challenge_methods_supported": ["S256"],
                        "id_token_signing_alg_values_supported": ["RS256"],
                        "response_types_supported": ["code"],
                    }
                )
            elif url.path == "/jwks":
                self._say({"keys": [key.as_dict(private=False)]})
            elif url.path == "/authorize":
                links = "".join(
                    f'<p><a href="/grant?{html.escape(urlencode(asked | {"who": who}))}">{who}</a></p>'
                    for who in PEOPLE
                )
                self._say(f"<h1>Who are you?</h1>{links}", "text/html")
            elif url.path == "/grant":
                code = secrets.token_urlsafe(16)
                codes[code] = asked
                back = urlencode({"code": code, "state": asked["state"]})
                self._go(f"{asked['redirect_uri']}?{back}")
            elif url.path == "/end":
                self._go(asked["post_logout_redirect_uri"])
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            given = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            asked = codes.pop(given["code"][0], None)
            who = base64.b64decode(self.headers.get("Authorization", " ").split(" ")[1]).decode()
            digest = hashlib.sha256(given["code_verifier"][0].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if asked is None or asked["code_challenge"] != challenge or who.split(":")[0] != CLIENT:
                return self.send_error(400)
            now = int(time.time())
            claims = {
                "iss": base, "aud": CLIENT, "sub": asked["who"], "iat": now, "exp": now + 600,
                "nonce": asked["nonce"], "email": asked["who"], "email_verified": True,
                "name": asked["who"].split("@")[0].title(),
            }  # fmt: skip
            token = jwt.encode({"alg": "RS256", "kid": "1"}, claims, key)
            self._say(
                {"access_token": "x", "token_type": "Bearer", "expires_in": 600, "id_token": token}
            )

    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    base = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield base
    finally:
        server.shutdown()
        server.server_close()
