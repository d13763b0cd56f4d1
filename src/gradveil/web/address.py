"""Whether an address can be listened on."""

import socket

from gradveil.errors import BadInput


def check_address(host: str, port: int) -> None:
    """Refuse an address that cannot be listened on, before the server would say so in its own words."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise BadInput(f"host = {host!r}, port = {port}: cannot listen there ({error.strerror})") from None
