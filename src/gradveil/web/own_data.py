"""The user's own data that a page may train on: files below one folder, which the owner of the server names."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradveil.data.sources import describe
from gradveil.data.user_data import FILES
from gradveil.errors import BadInput
from gradveil.web.refusals import brief

MOST_LISTED = 200
RULE = "a page can only start runs on built-in datasets"


@dataclass(frozen=True, slots=True)
class OwnData:
    """root: the folder; None lets pages read no file at all."""

    root: Path | None = None

    def listed(self) -> list[str]:
        """Return the files that can be trained on, by their paths below the folder."""
        if self.root is None:
            return []
        paths = sorted(p for depth in ("*", "*/*") for p in self.root.glob(depth) if p.suffix.lower() in FILES)
        names = [str(path.relative_to(self.root)) for path in paths[:MOST_LISTED]]
        return [name for name in names if name.isprintable()]

    def dataset(self, name: Any) -> Any:
        """Return the name of a built-in dataset as it is, any other as a path below the folder."""
        return name if name in [source.name for source in describe()] else self.path("dataset", name)

    def path(self, key: str, name: Any) -> str:
        """Return a path below the folder; any other is refused, and not told apart from one that does not exist."""
        if self.root is None:
            raise BadInput(f"{key} = {brief(name)}: {RULE}; `gradveil serve --data FOLDER` adds the files of a folder")
        file = self._below(self.root.resolve(), name) if isinstance(name, str) and name.isprintable() else None
        if file is None:
            raise BadInput(f"{key} = {brief(name)}: {RULE} and on files below the folder of `serve --data`")
        return str(file)

    @staticmethod
    def _below(root: Path, name: str) -> Path | None:
        try:
            path = (root / name).resolve()
            return path if root in path.parents and path.exists() else None
        except (OSError, RuntimeError, ValueError):  # a name that is too long, links in a circle
            return None
