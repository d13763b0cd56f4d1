"""Heavy work for pages, bounded: a few threads, a short queue, and nothing begun that nobody waits for any more."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool

from gradveil.web.refusals import Overloaded

TICK = 0.25
"""Seconds between two looks whether a client is still there."""


class ClientLeft(Exception):
    """Nobody waits for the answer."""


@dataclass(slots=True)
class PendingTask:
    """Work that is queued or done, and how many clients wait for it."""

    task: "asyncio.Task[Any]"
    clients: int = 0
    begun: bool = False


class Workers:
    """At most `threads` jobs at once and `waiting` in the queue; clients who ask for the same thing share one job.

    A job whose clients left is taken out of the queue; one that has begun goes on to its end, so no more than `threads`
    jobs work for nobody. All methods belong to one event loop.
    """

    def __init__(self, threads: int, waiting: int) -> None:
        self._free = asyncio.Semaphore(threads)
        self._most = threads + waiting
        self._jobs: dict[Hashable, PendingTask] = {}

    async def do(self, key: Hashable, make: Callable[[], Any], left: Callable[[], Awaitable[bool]]) -> Any:
        """Run `make` in a thread; raises Overloaded if the queue is full, ClientLeft if `left` says so."""
        job = self._jobs.get(key) or self._queue(key, make)
        job.clients += 1
        try:
            while not (await asyncio.wait({job.task}, timeout=TICK))[0]:
                if await left():
                    raise ClientLeft
            return job.task.result()
        finally:
            job.clients -= 1
            self._drop_unwanted(key, job)

    def _queue(self, key: Hashable, make: Callable[[], Any]) -> PendingTask:
        if len(self._jobs) >= self._most:
            raise Overloaded("the server is busy: try again later")
        job = PendingTask(asyncio.create_task(self._run(key, make)))
        job.task.add_done_callback(lambda task: self._forget(key, job))
        self._jobs[key] = job
        return job

    async def _run(self, key: Hashable, make: Callable[[], Any]) -> Any:
        async with self._free:
            self._jobs[key].begun = True
            return await run_in_threadpool(make)

    def _drop_unwanted(self, key: Hashable, job: PendingTask) -> None:
        if job.clients == 0 and not job.begun:
            job.task.cancel()
            self._forget(key, job)  # at once: whoever asks next must not join a job that is being cancelled

    def _forget(self, key: Hashable, job: PendingTask) -> None:
        if self._jobs.get(key) is job:
            del self._jobs[key]
        if job.task.done() and not job.task.cancelled():
            job.task.exception()  # read, or asyncio complains that nobody did
