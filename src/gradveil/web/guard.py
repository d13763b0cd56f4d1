"""Who may ask: on loopback only pages of this server, elsewhere only who has the token."""

import hmac
import secrets
from dataclasses import dataclass, field

from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "gradveil_token"
FORM_HEADER = "x-gradveil-form"
LARGEST = 64 * 1024
"""Bytes of a request's body."""
POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)


@dataclass(frozen=True, slots=True)
class Rules:
    """hosts: the Host headers that are answered, None for all. token: what every request must bring, None on loopback.

    form: what every request that changes something must bring; only pages of this server know it.
    """

    hosts: frozenset[str] | None
    token: str | None = None
    form: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    def objection(self, method: str, headers: Headers, cookie: str | None) -> tuple[int, str] | None:
        """Say why a request is turned away, if it is."""
        host = headers.get("host", "")
        if self.hosts is not None and host not in self.hosts:
            return 421, "this host name is not served"
        if self.token is not None and not (cookie and hmac.compare_digest(cookie.encode(), self.token.encode())):
            return 401, "a token is needed: open the address with ?token=..."
        if method in ("GET", "HEAD"):
            return None
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return 403, "another website may not do this"
        if not hmac.compare_digest(headers.get(FORM_HEADER, "").encode(), self.form.encode()):
            return 403, "the form's token is missing or old; load the page again"
        if int(headers.get("content-length") or LARGEST + 1) > LARGEST:
            return 413, f"at most {LARGEST} bytes are read"
        return None


class Guard:
    """Asks the rules before every request, and adds the headers that keep a page to itself."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app, self._rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or turn it away."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        refusal = self._entered(scope) or self._refusal(scope)
        await (refusal or self._app)(scope, _limited(receive), _with_headers(send))

    def _entered(self, scope: Scope) -> Response | None:
        """Let whoever brings the token in the address in, and take it out of the address."""
        given = QueryParams(scope["query_string"]).get("token")
        known = self._rules.token
        if given is None or known is None or not hmac.compare_digest(given.encode(), known.encode()):
            return None
        answer = RedirectResponse(scope["path"] or "/", status_code=303)
        answer.set_cookie(COOKIE, known, httponly=True, samesite="strict")
        return answer

    def _refusal(self, scope: Scope) -> Response | None:
        request = Request(scope)
        found = self._rules.objection(scope["method"], request.headers, request.cookies.get(COOKIE))
        if found is None:
            return None
        status, sentence = found
        wants_json = scope["method"] not in ("GET", "HEAD")
        return JSONResponse({"error": sentence}, status) if wants_json else PlainTextResponse(sentence + "\n", status)


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
