"""Whether some tests run every module of the package: which modules had a function called, in which workers.

A module counts as run when one of its functions was called, or when it was imported if it has none. Calls are seen by
a trace function that looks at nothing else, which costs a few percent.
"""

import ast
import inspect
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(find_spec("gradveil").origin).parent
CODES: set = set()
"""The code of every Python function that was called since `watch`."""


def watch():
    """Begin to note which functions are called, in this thread and all that start later."""

    def note(frame, event, argument, add=CODES.add):
        add(frame.f_code)

    threading.settrace(note)
    sys.settrace(note)


def rest():
    """Stop watching until the next `watch`."""
    threading.settrace(None)
    sys.settrace(None)


def ran():
    """Stop watching, and give the modules that were run, as paths below the package."""
    rest()
    functions = {code.co_filename for code in CODES.copy() if code.co_flags & inspect.CO_OPTIMIZED}
    imported = {
        m.__file__ for n, m in list(sys.modules.items()) if n.startswith("gradveil") and getattr(m, "__file__", 0)
    }
    without = {path for path in imported if not has_functions(Path(path).read_text(encoding="utf-8"))}
    paths = (Path(name) for name in functions | without)
    return sorted(path.relative_to(ROOT).as_posix() for path in paths if path.is_relative_to(ROOT))


def has_functions(source):
    """Say whether a module defines anything that could be called; what a protocol leaves open cannot."""
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(_Bodies().visit(ast.parse(source)))
    )


class _Bodies(ast.NodeTransformer):
    """Leaves out protocols, and what only a type checker reads."""

    def visit_ClassDef(self, node):
        return None if any("Protocol" in ast.unparse(base) for base in node.bases) else self.generic_visit(node)


def missing(run, elsewhere):
    """Give the modules of the package that are not among those that were run."""
    return sorted({path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")} - set(run) - set(elsewhere))
