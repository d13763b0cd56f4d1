"""Whether some tests run every module of the package: which modules had a function called, in which workers.

A module counts as run when one of its functions was called, or when it was imported if it has none. Functions of the
package note their module when they are called: `watch` has the note written into them as they are imported. Nothing
else is slowed down, which a trace function would do to every call of JAX.
"""

import ast
import sys
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(find_spec("gradveil").origin).parent
CALLED: set[str] = set()
"""The file of every module of which a function was called since `watch`."""
NOTE = "__note_call__"


def watch():
    """Begin to note calls into modules of the package that are imported from now on."""
    sys.meta_path.insert(0, _Finder())


def ran():
    """Give the modules that were run, as paths below the package."""
    modules = [(name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items())]
    imported = {file for name, file in modules if file and name.partition(".")[0] == "gradveil"}
    without = {file for file in imported if not has_functions(Path(file).read_text(encoding="utf-8"))}
    return sorted(Path(file).relative_to(ROOT).as_posix() for file in CALLED | without)


class _Finder(MetaPathFinder):
    """Finds modules of gradveil as Python does, and has them loaded with notes."""

    def find_spec(self, name, path=None, target=None):
        spec = PathFinder.find_spec(name, path) if name.partition(".")[0] == "gradveil" else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    """Compiles a module with a note at the beginning of each function."""

    def get_code(self, fullname):
        source = ast.parse(self.get_data(self.path))
        return compile(ast.fix_missing_locations(_Notes().visit(source)), self.path, "exec", dont_inherit=True)

    def exec_module(self, module):
        setattr(module, NOTE, partial(CALLED.add, self.path))
        super().exec_module(module)


class _Notes(ast.NodeTransformer):
    """Writes a call of `NOTE` into functions, behind their docstring; it gives None."""

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.body.insert(1 if ast.get_docstring(node, clean=False) is not None else 0, ast.Expr(_noting()))
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node):
        self.generic_visit(node)
        node.body = ast.BoolOp(ast.Or(), [_noting(), node.body])
        return node


def _noting():
    return ast.Call(ast.Name(NOTE, ast.Load()), [], [])


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
