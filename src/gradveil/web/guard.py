"""Who may ask: only who has the token, on loopback too, since every user of a machine can reach its loopback."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gradveil.web.refusal_page import refusal_page

COOKIE = "gradveil"
FORM_HEADER = "x-gradveil-form"
LARGEST = 64 * 1024
"""Bytes of a request's body."""
TOO_LARGE = f"the request is too large: at most {LARGEST} bytes are read"
POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)


def fresh_token() -> str:
    """Return a token that nobody can guess: 256 random bits."""
    return secrets.token_urlsafe(32)


def same(secret: str, expected: str) -> bool:
    """Compare two secrets in a time that does not tell where they differ."""
    return hmac.compare_digest(secret.encode("utf-8", "replace"), expected.encode())


def cookie_name(host: str) -> str:
    """Name the cookie after the port: browsers keep one jar for all ports of a host."""
    port = host.rpartition(":")[2]
    return f"{COOKIE}-{port}" if port.isdecimal() else COOKIE


@dataclass(frozen=True, slots=True)
class Rules:
    """hosts: the Host headers that are answered, None for all. token: what every visitor must bring once.

    form: what every request that changes something must bring; only pages of this server know it.
    """

    hosts: frozenset[str] | None
    token: str = field(default_factory=fresh_token)
    form: str = field(default_factory=fresh_token)

    @property
    def session(self) -> str:
        """What the cookie holds: it follows from the token, and the token does not follow from it."""
        return hmac.new(self.token.encode(), b"gradveil session", hashlib.sha256).hexdigest()

    def objection(self, method: str, headers: Headers, cookie: str) -> tuple[int, str] | None:
        """Say why a request to a served host is turned away, if it is."""
        if not same(cookie, self.session):
            return 401, "a token is needed: open the address that `gradveil serve` printed, which ends in ?token=..."
        return None if method in ("GET", "HEAD") else self._objection_to_a_change(headers)

    def _objection_to_a_change(self, headers: Headers) -> tuple[int, str] | None:
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers.get("host", ""):
            return 403, "requests from another website are refused"
        if not same(headers.get(FORM_HEADER, ""), self.form):
            return 403, "the form's token is missing or old; load the page again"
        length = headers.get("content-length", "")
        if not (length.isascii() and length.isdecimal()):
            return 411, "the request has no valid Content-Length"
        return (413, TOO_LARGE) if len(length) > len(str(LARGEST)) or int(length) > LARGEST else None


class Guard:
    """Asks the rules before every request, and adds the headers that keep a page to itself."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app, self._rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or turn it away."""
        if scope["type"] == "websocket":  # there are none, so nobody may open one
            return await send({"type": "websocket.close", "code": 1008})
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        refusal = self._elsewhere(scope) or self._entered(scope) or self._refusal(scope)
        await (refusal or self._app)(scope, _limited(receive), _with_headers(send))

    def _elsewhere(self, scope: Scope) -> Response | None:
        """Turn away who asks for another host: a website may have pointed its own name to this address."""
        hosts = self._rules.hosts
        if hosts is None or Headers(scope=scope).get("host", "") in hosts:
            return None
        return answer(scope, 421, "this host name is not served")

    def _entered(self, scope: Scope) -> Response | None:
        """Exchange the token in an address for a cookie, and take it out of the address."""
        token = QueryParams(scope["query_string"]).get("token")
        if token is None or scope["method"] not in ("GET", "HEAD") or not same(token, self._rules.token):
            return None
        entered = RedirectResponse(_without_token(scope), status_code=303)
        name = cookie_name(Headers(scope=scope).get("host", ""))
        entered.set_cookie(name, self._rules.session, httponly=True, samesite="strict")
        return entered

    def _refusal(self, scope: Scope) -> Response | None:
        request = Request(scope)
        cookie = request.cookies.get(cookie_name(request.headers.get("host", "")), "")
        objection = self._rules.objection(scope["method"], request.headers, cookie)
        return None if objection is None else answer(scope, *objection)


def answer(scope: Scope, status: int, sentence: str) -> Response:
    """Return one sentence: as a page to a browser that opens an address, as text to a program, as JSON to a form."""
    sentence = sentence.encode("utf-8", "backslashreplace").decode()
    if scope["method"] in ("GET", "HEAD"):
        if "text/html" in Headers(scope=scope).get("accept", ""):
            return HTMLResponse(refusal_page(status, sentence), status)
        return PlainTextResponse(sentence + "\n", status)
    return JSONResponse({"error": sentence}, status)


def _without_token(scope: Scope) -> str:
    """Return the address as it was sent, on this server whatever it says, without the token."""
    path = "/" + (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").lstrip("/\\")
    parts = scope["query_string"].decode("latin-1").split("&")
    query = "&".join(part for part in parts if part.partition("=")[0] != "token")
    return f"{path}?{query}" if query else path


def _limited(receive: Receive) -> Receive:
    """Stop reading where a body is longer than it said or than is allowed."""
    read = 0

    async def receiving() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        return message if read <= LARGEST else {"type": "http.disconnect"}

    return receiving


def _with_headers(send: Send) -> Send:
    async def sending(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))  # type: ignore[call-overload]
            headers += [
                (b"content-security-policy", POLICY.encode()),
                (b"x-content-type-options", b"nosniff"),
                (b"referrer-policy", b"no-referrer"),
                (b"cache-control", b"no-store"),
            ]
            message = {**message, "headers": headers}
        await send(message)

    return sending  # type: ignore[return-value]
