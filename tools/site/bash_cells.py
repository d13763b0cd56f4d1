"""`%%bash` for the notebooks of the site: what a cell printed comes as one text without colors, errors included.

docs/conf.py puts this file where IPython starts. Elsewhere notebooks use IPython's own `%%bash`, which hands its output
over in pieces that end in the middle of a line.
"""

import os
import subprocess
from typing import Any

COLORS = ("FORCE_COLOR", "CLICOLOR_FORCE", "CLICOLOR")


def bash(line: str, cell: str) -> None:
    """Run a cell and print what it printed; an exit code other than 0 ends the notebook."""
    environment = {name: value for name, value in os.environ.items() if name not in COLORS} | {
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
    done = subprocess.run(["bash", "-c", cell], stdout=-1, stderr=subprocess.STDOUT, text=True, env=environment)
    print(done.stdout, end="")
    done.check_returncode()


def start(shell: Any) -> None:
    """Let a shell use it."""
    shell.register_magic_function(bash, "cell", "bash")


if "get_ipython" in globals():
    start(globals()["get_ipython"]())
