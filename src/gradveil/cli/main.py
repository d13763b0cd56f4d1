"""The entry point: verbs, exit codes, and errors as one sentence."""

import os
import sys
from typing import Annotated, Any, NoReturn

import typer

from gradveil.__about__ import __version__
from gradveil.cli.verbs import Verbs
from gradveil.errors import BadInput, RunFailed, machine_errors, quoted

app = typer.Typer(
    cls=Verbs,
    help="Federated learning that does not leak: train under differential privacy, account for it, attack it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"gradveil {__version__}")
        raise typer.Exit


@app.callback()
def gradveil(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Federated learning that does not leak: train under differential privacy, account for it, attack it."""


def entry() -> NoReturn:
    """Run the command line; exit 0, 1 (the answer is no), 2 (bad input) or 130 (interrupted).

    Names of the user's own code are looked up in the working directory too, after everything that is installed.
    """
    sys.path.append(os.getcwd())
    sys.exit(main(sys.argv[1:]))


def main(arguments: list[str]) -> int:
    """Run one command and give its exit code."""
    try:
        with machine_errors():
            _refuse_unprintable(arguments)
            code = app(arguments, standalone_mode=False, prog_name="gradveil")
        return code if isinstance(code, int) else 0
    except BadInput as error:
        return _say(str(error), 2)
    except RunFailed as error:
        return _say(str(error), 1)
    except _UsageError as error:
        return _refuse(error)
    except (KeyboardInterrupt, typer.Abort):
        return _say("interrupted", 130)
    except BrokenPipeError:
        return 1


# Some releases of typer bring their own copy of click, so its errors are reached through typer alone.
_UsageError: type[Any] = typer.BadParameter.__mro__[1]


def _refuse_unprintable(arguments: list[str]) -> None:
    """Refuse words that neither a file name nor a plan can hold: NUL, and bytes that are not UTF-8."""
    for word in arguments:
        if "\0" in word or any(0xD800 <= ord(letter) < 0xE000 for letter in word):
            raise BadInput(f"{quoted(word)}: an argument must be text in UTF-8 without NUL")


def _refuse(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return 2
    message = " ".join(error.format_message().split())
    about = getattr(getattr(error, "param", None), "help", None)
    if type(error).__name__ == "MissingParameter" and about:
        message = f"{message.rstrip('.')} ({about.split('. ')[0].rstrip('.')})"
    return _say(message, 2)


def _say(sentence: str, code: int) -> int:
    typer.echo(f"gradveil: {' '.join(sentence.split())}", err=True)
    return code
