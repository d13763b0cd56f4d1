"""One generated input: how it is made from a seed and a number, tried, and judged."""

import contextlib
import io
import random
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz_commands import command, plan_file
from fuzz_damage import damage
from fuzz_library import call
from fuzz_world import World

from gradveil.cli.main import main
from gradveil.errors import BadInput, RunFailed

SECONDS = 20.0
SEED = 14
"""Another seed is another thousand inputs; this one is what `make fuzz` tries."""


class TooLong(BaseException):
    """An input was not answered in time; no handler of ordinary errors may catch it."""


@dataclass(frozen=True)
class Case:
    """An input as a person would read it, and a function that tries it and gives the complaint, None if there is none.

    out: where it may write; a refused input must have left nothing there.
    """

    told: str
    attempt: Callable[[], str | None]
    out: Path


def case(number: int, world: World, seed: int = SEED) -> Case:
    """Make the input of a number: the same for the same seed and world."""
    dice, out = random.Random(f"{seed}/{number}"), world.folder / f"out-{number}"
    kind = dice.choices(("command", "plan file", "library", "damage"), (55, 12, 18, 15))[0]
    if kind == "library":
        told, act = call(dice, world, out)
        return Case(told, lambda: called(act), out)
    if kind == "command":
        words = command(dice, world, out)
        return Case(repr(words), lambda: commanded(words, out), out)
    if kind == "plan file":
        content, path = plan_file(dice), world.folder / f"plan-{number}.toml"
        path.write_bytes(content)
        words = ["run", str(path), "--out", str(out)] + ["--dry-run"] * (dice.random() < 0.2)
        return Case(f"run with the plan {content[:500]!r}", lambda: commanded(words, out), out)
    told, words = damage(dice, world, out)
    return Case(f"{words} after: {told}", lambda: commanded(words, None), out)


def judged(case: Case) -> str | None:
    """Try an input within its time; gives what was wrong with the answer, None if nothing was."""
    try:
        with _within(SECONDS):
            return case.attempt()
    except TooLong:
        return f"took more than {SECONDS:.0f} s"
    finally:
        shutil.rmtree(case.out, ignore_errors=True)


def commanded(words: list[str], out: Path | None) -> str | None:
    """Run a command line in this process: only 0, 1 and 2 are answers, and a refusal is one line and no files."""
    told, said = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")
    try:
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(said):
            code = main(words)
            told.flush()
    except (Exception, SystemExit) as error:
        return _trace(error)
    said.flush()
    lines = said.buffer.getvalue().decode().splitlines()
    if code not in (0, 1, 2):
        return f"exit code {code}: {lines}"
    if code and len(lines) != 1:
        return f"exit code {code} with {len(lines)} lines on standard error: {lines[:3]}"
    left = sorted(out.parent.glob(f"*{out.name}*")) if out is not None and code == 2 and words[0] == "run" else []
    return f"refused, and left {left}" if left else None


def called(act: Callable[[], Any]) -> str | None:
    """Call the library: it answers, or raises BadInput or RunFailed with one sentence."""
    try:
        act()
    except (BadInput, RunFailed) as error:
        return None if len(str(error).splitlines()) == 1 else f"not one line: {error!r}"
    except Exception as error:
        return _trace(error)
    return None


def _trace(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:200]} ({Path(last.filename).name}:{last.lineno})"


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
