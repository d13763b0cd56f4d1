"""What the server says no to, and with which status: always one sentence, never the inside of a program."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from gradveil.errors import BadInput
from gradveil.web.guard import TOO_LARGE, answer

LONGEST = 120
"""Letters of a value that are repeated in a sentence."""


class NoSuchRun(BadInput):
    """There is no such run below the folder."""


class Damaged(BadInput):
    """A run is there, and cannot be shown."""


class Overloaded(Exception):
    """More is asked for at once than is worked on."""


STATUS = {NoSuchRun: 404, Damaged: 422, BadInput: 400, Overloaded: 503}


def brief(value: Any) -> str:
    """Write a value as Python would, cut where it is long."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # too deep, or a number of too many digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Turn whatever a damaged run raises into one sentence.

    Everything is caught: a file that is cut, odd or foreign fails wherever the part that was lost is first needed, be
    it in reading, counting, drawing or writing the page.
    """
    try:
        yield
    except (NoSuchRun, Damaged):
        raise
    except BadInput as error:
        raise Damaged(f"the run {brief(name)} cannot be shown: {error}") from None
    except Exception as error:
        raise Damaged(
            f"the run {brief(name)} cannot be shown: one of its files is damaged ({type(error).__name__})"
        ) from error


async def refused(request: Request, error: Exception) -> Response:
    """Answer with the sentence of a refusal, which is what the command line would say."""
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    return answer(request.scope, status, str(error))


async def unwritable(request: Request, error: Exception) -> Response:
    """Answer that the disk does not do as asked: full, read-only, gone."""
    reason = getattr(error, "strerror", None) or type(error).__name__
    return answer(request.scope, 503, f"the folder of runs cannot be used now ({reason})")


async def cut_off(request: Request, error: Exception) -> Response:
    """Answer a body that goes on beyond the limit; a client that left reads nothing of it."""
    return answer(request.scope, 413, TOO_LARGE)


async def no_such_page(request: Request, error: Exception) -> Response:
    """Answer an address that leads nowhere, or a way of asking that it does not know."""
    status = getattr(error, "status_code", 404)
    return answer(
        request.scope,
        status,
        "there is no such page"
        if status == 404
        else "this address does not take this kind of request (method not allowed)",
    )


HANDLERS: Any = {
    HTTPException: no_such_page,
    BadInput: refused,
    Overloaded: refused,
    OSError: unwritable,
    ClientDisconnect: cut_off,
}
"""Which answer follows which error, for Starlette."""
