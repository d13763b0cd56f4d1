"""The token that lets visitors in: made fresh for every server, or taken from a file, the environment or an option."""

import re
import stat
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path

from gradveil.errors import BadInput
from gradveil.web.guard import fresh_token

VARIABLE = "GRADVEIL_TOKEN"
SHAPE = re.compile(r"[A-Za-z0-9._~-]{16,256}")
RULE = "must be 16 to 256 letters, digits or any of - . _ ~"
LONGEST_FILE = 4096
VISIBLE = f"--token can be read by every user of this machine (ps); --token-file or {VARIABLE} cannot"


@dataclass(frozen=True, slots=True)
class Token:
    """value: what a visitor must bring. own: whether the user chose it. warning: what the user should know."""

    value: str
    own: bool
    warning: str = ""


def choose(option: str | None, file: Path | None, environment: MutableMapping[str, str]) -> Token:
    """Return the token: the option's, the file's, the environment's, or a fresh one.

    It is taken out of the environment, so that no run that this server starts inherits it.
    """
    inherited = environment.pop(VARIABLE, None)
    if option is not None and file is not None:
        raise BadInput("token, token-file: give one of them")
    if option is not None:
        return Token(_checked("token", option), True, VISIBLE)
    if file is not None:
        return Token(_checked(f"token-file = {str(file)!r}", _read(file)), True)
    if inherited is not None:
        return Token(_checked(VARIABLE, inherited), True)
    return Token(fresh_token(), False)


def _checked(source: str, value: str) -> str:
    if not SHAPE.fullmatch(value):  # the value is a secret, so it is not repeated
        raise BadInput(f"{source}: {RULE}")
    return value


def _read(file: Path) -> str:
    """Read a file that only its owner can read; what others can read is no secret."""
    try:
        about = file.stat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > LONGEST_FILE:
            raise BadInput(f"token-file = {str(file)!r}: must be a file with one token and nothing else")
        if about.st_mode & 0o077:
            mode = stat.S_IMODE(about.st_mode)
            raise BadInput(f"token-file = {str(file)!r}: others may read it (mode {mode:o}); chmod 600 it")
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not plain text"
        raise BadInput(f"token-file = {str(file)!r}: cannot be read ({reason})") from None
