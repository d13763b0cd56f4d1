"""Reports are made once for what a run is, a few at a time, and not for those who left."""

import asyncio
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gradveil.errors import BadInput
from gradveil.web import report_pages
from gradveil.web.refusals import Overloaded
from gradveil.web.report_pages import MOST_COMPARED, ReportPages
from gradveil.web.run_processes import Runs
from gradveil.web.special_files import digest, sources
from gradveil.web.turns import ClientLeft, Workers


@pytest.fixture
def made(monkeypatch):
    """The pages that were really made, in order, by the names of their runs."""
    pages, real = [], report_pages.page

    def counted(runs):
        pages.append([run.folder.name for run in runs])
        return real(runs)

    monkeypatch.setattr(report_pages, "page", counted)
    return pages


@pytest.fixture
def root(trained, tmp_path):
    """A folder with a copy of each trained run."""
    for name in ("one", "two"):
        shutil.copytree(trained / name, tmp_path / name)
    return tmp_path


def test_a_report_is_made_once_while_its_run_stays_as_it_is(client, root, made):
    asked = client(root)
    first = asked.get("/report/one").text
    assert [asked.get("/report/one").text for _ in range(3)] == [first] * 3
    assert made == [["one"]]
    asked.get("/compare?run=one&run=two")
    asked.get("/compare?run=one&run=two")
    asked.get("/report/two")
    assert made == [["one"], ["one", "two"], ["two"]]


def test_a_changed_run_gives_a_new_report(client, root, made):
    asked = client(root)
    before = asked.get("/report/one").text
    (root / "one").rename(root / "first")
    shutil.copytree(root / "two", root / "one")
    assert asked.get("/report/one").text != before
    assert made == [["one"], ["one"]]
    shutil.rmtree(root / "one")
    (root / "first").rename(root / "one")
    assert asked.get("/report/one").text == before
    assert len(made) == 2


def test_every_file_that_a_report_shows_is_in_its_digest(root):
    folder = root / "one"
    whole, seen = digest(folder), []
    for path in sources(folder):
        content = path.read_bytes()
        path.write_bytes(content + b" ")
        changed = digest(folder)
        path.unlink()
        seen += [changed, digest(folder)]
        path.write_bytes(content)
        assert digest(folder) == whole
    assert len({whole, *seen}) == 1 + len(seen)
    shown = {"plan.toml", "data.json", "environment.json", "metrics.jsonl", "result.json"}
    attacks = {path.name for path in (folder / "attacks").iterdir()}
    assert {path.name for path in sources(folder)} == shown | attacks
    assert {Path(name).suffix for name in attacks} == {".json", ".npz"}


def test_what_is_kept_is_bounded(root):
    runs = Runs(root)
    pages = ReportPages(runs, limit=1)
    first, second = pages.key(["one"]), pages.key(["two"])
    pages.make(first)
    assert pages.cached(first) is not None
    pages.make(second)
    assert pages.cached(first) is None
    assert pages.cached(second) is not None


def test_requests_for_one_report_at_the_same_time_make_it_once(client, root, made):
    with client(root) as asked, ThreadPoolExecutor(8) as crowd:
        pages = list(crowd.map(lambda _: asked.get("/report/one"), range(8)))
    assert {page.status_code for page in pages} == {200}
    assert len({page.text for page in pages}) == 1
    assert made == [["one"]]


def test_at_most_twelve_runs_are_compared_and_the_sentence_says_so(client, root, made):
    asked = client(root)
    many = "&".join(f"run=r{i}" for i in range(MOST_COMPARED + 1))
    answer = asked.get(f"/compare?{many}")
    assert answer.status_code == 400
    assert answer.text == "13 runs are chosen: at most 12 can be compared on one page\n"
    assert 'data-most="12"' in asked.get("/").text
    assert made == []


@pytest.mark.slow
def test_twelve_runs_can_be_compared(client, root, made):
    names = [f"r{i}" for i in range(MOST_COMPARED)]
    for name in names:
        (root / name).symlink_to(root / "one")
    assert client(root).get("/compare", params=[("run", name) for name in names]).status_code == 200
    assert len(made) == 1


async def stays():
    return False


def run(scene):
    return asyncio.run(asyncio.wait_for(scene, 60))


def test_a_full_queue_is_refused_and_what_was_taken_in_is_done():
    async def scene():
        workers, gate, done = Workers(threads=1, waiting=2), threading.Event(), []

        def job(i):
            return lambda: (gate.wait(30), done.append(i), i)[-1]

        taken = [asyncio.create_task(workers.do(i, job(i), stays)) for i in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="the server is busy"):
            await workers.do(3, job(3), stays)
        joined = asyncio.create_task(workers.do(2, job(2), stays))  # who asks for the same is no more work
        await asyncio.sleep(0)
        gate.set()
        assert await asyncio.gather(*taken, joined) == [0, 1, 2, 2]
        assert done == [0, 1, 2]
        assert await workers.do(3, job(3), stays) == 3

    run(scene())


def test_work_that_nobody_waits_for_is_never_begun_and_what_was_begun_is_bounded():
    async def scene():
        workers, gate, begun, left = Workers(threads=2, waiting=10), threading.Event(), [], asyncio.Event()

        async def leaves():
            return left.is_set()

        def job(i):
            return lambda: (begun.append(i), gate.wait(30))

        crowd = [asyncio.create_task(workers.do(i, job(i), leaves)) for i in range(10)]
        stayed = asyncio.create_task(workers.do(9, job(9), stays))  # one of two who asked for the last
        async with asyncio.timeout(30):
            while len(begun) < 2:
                await asyncio.sleep(0.01)
        left.set()
        ends = await asyncio.gather(*crowd, return_exceptions=True)
        assert [type(end) for end in ends] == [ClientLeft] * 10
        gate.set()
        await stayed
        assert sorted(begun) == [0, 1, 9]
        assert await workers.do(5, lambda: "made for who came back", stays) == "made for who came back"

    run(scene())


def test_an_error_reaches_all_who_wait_and_is_not_kept():
    async def scene():
        workers = Workers(threads=1, waiting=2)

        def broken():
            raise BadInput("it is broken")

        both = await asyncio.gather(*(workers.do("x", broken, stays) for _ in range(2)), return_exceptions=True)
        assert [str(error) for error in both] == ["it is broken"] * 2
        assert await workers.do("x", lambda: 1, stays) == 1

    run(scene())


def test_reports_beyond_the_queue_get_one_sentence_and_503(client, root, monkeypatch):
    gate = threading.Event()

    def held_up(runs):
        gate.wait(60)
        raise BadInput("it was held up")

    monkeypatch.setattr(report_pages, "page", held_up)
    names = [f"r{i}" for i in range(30)]
    for name in names:
        (root / name).symlink_to(root / "one")
    with client(root) as asked, ThreadPoolExecutor(30) as crowd:
        try:
            pending = [crowd.submit(asked.get, f"/report/{name}") for name in names]
            refused = [answer for answer in wait_for_refusals(pending, 30 - 18) if answer.status_code == 503]
        finally:
            gate.set()
        assert {answer.text for answer in refused} == {"the server is busy: try again later\n"}
        assert sorted(p.result().status_code for p in pending) == [422] * 18 + [503] * 12


def wait_for_refusals(pending, count):
    """Give the answers that came while all others wait."""
    gate = threading.Semaphore(0)
    for one in pending:
        one.add_done_callback(lambda _: gate.release())
    for _ in range(count):
        assert gate.acquire(timeout=60)
    return [one.result() for one in pending if one.done()]
