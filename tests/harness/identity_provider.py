"""An identity provider on 127.0.0.1 that says whatever a test wants: well, forged, late, twice, or for somebody else.

It asks nobody for a password: whoever comes to it is `account`. What a good provider checks, it checks: the client's
secret, the address to return to, the code once, and the verifier of PKCE.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey

CLIENT_ID, CLIENT_SECRET = "interlock", "a secret: with/signs"


def new_key(alg: str = "RS256", kid: str | None = None) -> Key:
    """A key for an algorithm, with a name of its own."""
    named: Any = {"kid": kid or secrets.token_hex(4), "use": "sig"}
    if alg == "RS256":
        return RSAKey.generate_key(2048, parameters=named)
    kind = ECKey if alg == "ES256" else OKPKey
    return kind.generate_key(parameters=named)


class IdentityProvider:
    """`start()` before use, `close()` after; `behave_well()` forgets what a test changed."""

    def __init__(self) -> None:
        self.key = new_key()
        self.key_reads = 0
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.answer(self, dict(parse_qsl(urlsplit(self.path).query)))

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", "0"))
                provider.answer(self, dict(parse_qsl(self.rfile.read(length).decode())))

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        self.behave_well()

    def behave_well(self) -> None:
        """Sign in the account `ada`, in no group, as a good provider does."""
        self.account: dict[str, Any] = {"sub": "s-ada", "preferred_username": "ada", "groups": []}
        self.alg = "RS256"
        self.published: tuple[Key, ...] | None = None
        # What replaces parts of the token, of what is published about this provider, and of the way back.
        self.token: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.returned: dict[str, str] = {}
        self.user_info: dict[str, Any] | None = None
        self.takes_codes_twice = False
        self.moves = False
        self.asked: dict[str, str] = {}
        self._codes: dict[str, dict[str, str]] = {}

    def start(self) -> IdentityProvider:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler, sent: dict[str, str]) -> None:
        """Answer one request of a browser or of the server."""
        path = urlsplit(request.path).path
        has_moved = self.moves and path == "/.well-known/openid-configuration"
        if path == "/authorize" or has_moved:
            to = f"{self.issuer}/moved" if has_moved else self._way_back(sent)
            request.send_response(302)
            request.send_header("location", to)
            request.send_header("content-length", "0")
            request.end_headers()
            return
        status, document = 200, {}
        if path in ("/.well-known/openid-configuration", "/moved"):
            document = self._configuration()
        elif path == "/keys":
            self.key_reads += 1
            document = {"keys": [key.as_dict(private=False) for key in self.published or (self.key,)]}
        elif path == "/token":
            status, document = self._tokens(request, sent)
        elif path == "/userinfo":
            document = self.user_info or {}
        body = json.dumps(document).encode()
        request.send_response(status)
        request.send_header("content-type", "application/json")
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _configuration(self) -> dict[str, Any]:
        found = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }
        if self.user_info is not None:
            found["userinfo_endpoint"] = f"{self.issuer}/userinfo"
        return found | self.metadata

    def _way_back(self, sent: dict[str, str]) -> str:
        self.asked = sent
        code = secrets.token_hex(8)
        self._codes[code] = sent
        back = {"code": code, "state": sent["state"], **self.returned}
        return f"{sent['redirect_uri']}?{urlencode({name: value for name, value in back.items() if value})}"

    def _tokens(self, request: BaseHTTPRequestHandler, sent: dict[str, str]) -> tuple[int, dict[str, Any]]:
        basic = request.headers.get("authorization", "").removeprefix("Basic ")
        expected = "interlock:a%20secret%3A%20with%2Fsigns"
        is_ours = base64.b64decode(basic).decode() == expected
        if not is_ours and (sent.get("client_id"), sent.get("client_secret")) != (CLIENT_ID, CLIENT_SECRET):
            return 401, {"error": "invalid_client"}
        code = sent["code"]
        asked = self._codes.get(code) if self.takes_codes_twice else self._codes.pop(code, None)
        digest = hashlib.sha256(sent["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or asked["redirect_uri"] != sent["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        if (asked["code_challenge_method"], asked["code_challenge"]) != ("S256", challenge):
            return 400, {"error": "invalid_grant"}
        return 200, {"access_token": "at", "token_type": "Bearer", "id_token": self.id_token(asked["nonce"])}

    def id_token(self, nonce: str) -> str:
        """A token about `account`, with what `token` changes: a claim that is None is left out."""
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": nonce}
        claims |= self.account | self.token
        kept = {name: value for name, value in claims.items() if value is not None}
        if self.alg == "none":
            parts = ({"alg": "none", "kid": self.key.kid}, kept)
            text = [
                base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts
            ]
            return ".".join((*text, ""))
        key = OctKey.import_key(CLIENT_SECRET * 2) if self.alg == "HS256" else self.key
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return jwt.encode({"alg": self.alg, "kid": self.key.kid}, kept, key, algorithms=[self.alg])
