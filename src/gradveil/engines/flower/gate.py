"""The gate before the SuperLink: nodes reach the Fleet API, and its owner alone reaches the rest.

Flower's Control and Runtime APIs have no accounts, and any user of the host can reach a port on loopback: start a run,
list runs, or take over what a run executes. Here every request needs a secret from a file of the owner, except those of
nodes, which Flower authenticates by their keys.
"""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADER = "x-gradveil-owner"
FLEET, HEALTH = "/v1/fleet/", "/health"
_REFUSAL = b"this server belongs to another user of this host\n"


def gated(app: App, secret: bytes) -> App:
    """Return `app` behind a gate: requests of nodes, for health, and with the secret pass; others get 403."""

    async def gate(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or _open(scope) or _of_owner(scope, secret):
            await app(scope, receive, send)
        elif scope["type"] == "http":
            headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(_REFUSAL)).encode())]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": _REFUSAL})
        else:
            await send({"type": "websocket.close", "code": 1008})

    return gate


def _open(scope: Scope) -> bool:
    """Whether a request needs no secret; paths are compared as the SuperLink's own router compares them."""
    path = str(scope.get("path", ""))
    return scope["type"] == "http" and (path.startswith(FLEET) or path == HEALTH)


def _of_owner(scope: Scope, secret: bytes) -> bool:
    secrets = [value for name, value in scope.get("headers", ()) if name == HEADER.encode()]
    return len(secrets) == 1 and hmac.compare_digest(secrets[0], secret.hex().encode())
