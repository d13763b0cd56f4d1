"""The address that the page is served on."""

import socket

from gradveil.errors import BadInput

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that stand for all of a machine, and what a browser on it can open."""


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address; refuses one that cannot be listened on in one sentence.

    The socket is kept: were it opened again later, another process could take the port meanwhile, and get the token.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that cannot be one
        reason = getattr(error, "strerror", None) or "it is not a host name"
        raise BadInput(f"host = {host!r}, port = {port}: cannot listen there ({reason})") from None


def address(host: str, port: int) -> str:
    """Write the address as a browser on this machine takes it."""
    host = EVERYWHERE.get(host, host)
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
