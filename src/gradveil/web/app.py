"""The pages and what they ask for: plain HTML, a little script, server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from gradveil.errors import BadInput
from gradveil.reports.page import style
from gradveil.web import forecast, lab
from gradveil.web.guard import Guard, Rules
from gradveil.web.refusals import HANDLERS, Overloaded, brief
from gradveil.web.report_pages import MOST_COMPARED, ReportPages
from gradveil.web.run_form import FIELDS
from gradveil.web.run_processes import Runs
from gradveil.web.turns import ClientLeft, Workers

TICK = 0.5
MOST_STREAMS = 32
"""The most pages that follow runs at the same time."""


def make(runs: Runs, rules: Rules) -> Starlette:
    """Make the server of a folder of runs."""
    pages = Pages(runs, rules)
    routes = [
        Route("/", pages.index),
        Route("/new", pages.new),
        Route("/lab", pages.lab),
        Route("/compare", pages.compare),
        Route("/api/runs", pages.start, methods=["POST"]),
        Route("/api/epsilon", pages.epsilon, methods=["POST"]),
        Route("/api/duration", pages.duration, methods=["POST"]),
        Route("/api/lab", pages.attack, methods=["POST"]),
        Route("/api/runs/{name:path}/stop", pages.stop, methods=["POST"]),
        Route("/api/runs/{name:path}/resume", pages.resume, methods=["POST"]),
        Route("/events/{name:path}", pages.events),
        Route("/report/{name:path}", pages.report),
        Route("/run/{name:path}", pages.run),
        Route("/static/{name}", static),
    ]
    handlers: Any = HANDLERS | {ClientLeft: client_left}
    return Starlette(routes=routes, middleware=[Middleware(Guard, rules=rules)], exception_handlers=handlers)


async def client_left(request: Request, error: Exception) -> Response:
    """Return an empty response: the client has disconnected."""
    return Response(status_code=499)


@cache
def _templates() -> Environment:
    loader = ChoiceLoader([PackageLoader("gradveil.web"), PackageLoader("gradveil.reports")])
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


SCRIPTS = ("page.js", "runs.js", "new.js", "run.js", "lab.js")


async def static(request: Request) -> Response:
    """Return a script or the style sheet, and nothing else."""
    name = request.path_params["name"]
    if name == "style.css":
        return Response(style(), media_type="text/css")
    if name not in SCRIPTS:
        return PlainTextResponse("there is no such file\n", 404)
    script = files("gradveil.web").joinpath("scripts", name).read_text(encoding="utf-8")
    return Response(script, media_type="text/javascript")


class Pages:
    """What each address answers."""

    def __init__(self, runs: Runs, rules: Rules) -> None:
        self._runs, self._rules, self._reports = runs, rules, ReportPages(runs)
        self._reporting, self._attacking = Workers(threads=2, waiting=16), Workers(threads=1, waiting=4)
        self._forecasting, self._timing = Workers(threads=1, waiting=8), Workers(threads=1, waiting=8)
        self._streams = 0

    def _page(self, template: str, **values: Any) -> Response:
        text = _templates().get_template(template).render(form=self._rules.form, **values)
        return HTMLResponse(text)

    async def index(self, request: Request) -> Response:
        """List the runs."""
        runs = await run_in_threadpool(self._runs.listed)
        return self._page("index.html", title="Runs", runs=runs, most=MOST_COMPARED)

    async def new(self, request: Request) -> Response:
        """Show the form of a new run."""
        own = None if self._runs.data.root is None else await run_in_threadpool(self._runs.data.listed)
        return self._page("new.html", title="New run", groups=FIELDS, own=own)

    async def lab(self, request: Request) -> Response:
        """Show the lab."""
        return self._page(
            "lab.html", title="Leak lab", datasets=lab.DATASETS, methods=lab.METHOD_NAMES, attacks=lab.ATTACK_NAMES,
            first=lab.SHOWN_FIRST, bare=lab.BARE, sigmas=lab.SIGMAS, pictures=lab.PICTURES,
        )  # fmt: skip

    async def run(self, request: Request) -> Response:
        """Show one run, live."""
        name = request.path_params["name"]
        return self._page("run.html", title=name, run=await run_in_threadpool(self._runs.status_of, name))

    async def report(self, request: Request) -> Response:
        """Return the report of a run; a user's own records are not in it."""
        return await self._reported([request.path_params["name"]], request)

    async def compare(self, request: Request) -> Response:
        """Return one page about several runs."""
        names = list(dict.fromkeys(request.query_params.getlist("run")))
        if len(names) < 2:
            raise BadInput("choose at least two runs to compare")
        if len(names) > MOST_COMPARED:
            raise BadInput(f"{len(names)} runs are chosen: at most {MOST_COMPARED} can be compared on one page")
        return await self._reported(names, request)

    async def _reported(self, names: list[str], request: Request) -> Response:
        """Return a page that was made from the very files that are there now, or make it."""
        key = await run_in_threadpool(self._reports.key, names)
        text = self._reports.cached(key)
        if text is None:
            text = await self._reporting.do(key, lambda: self._reports.make(key), request.is_disconnected)
        return HTMLResponse(text)

    async def start(self, request: Request) -> Response:
        """Start a run; what the command line refuses is refused in its words."""
        fields = _fields(await _object(request))
        return JSONResponse({"name": await run_in_threadpool(self._runs.start, fields)})

    async def epsilon(self, request: Request) -> Response:
        """Say what the plan in a form would spend, and which settings it has."""
        return await self._forecast(self._forecasting, forecast.epsilon, request)

    async def duration(self, request: Request) -> Response:
        """Say how long the plan in a form would take."""
        return await self._forecast(self._timing, forecast.duration, request)

    async def _forecast(self, workers: Workers, ask: Callable[..., dict[str, Any]], request: Request) -> Response:
        fields = _fields(await _object(request))
        key = tuple(sorted(fields.items()))
        return JSONResponse(await workers.do(key, lambda: ask(fields, self._runs.data), request.is_disconnected))

    async def stop(self, request: Request) -> Response:
        """Stop a run."""
        return await self._act(self._runs.stop, request)

    async def resume(self, request: Request) -> Response:
        """Resume a run."""
        return await self._act(self._runs.resume, request)

    async def _act(self, act: Callable[[str], None], request: Request) -> Response:
        await run_in_threadpool(act, request.path_params["name"])
        return JSONResponse({"name": request.path_params["name"]})

    async def attack(self, request: Request) -> Response:
        """Attack one picture."""
        lab_request = lab.LabRequest.of(await _object(request))
        answer = await self._attacking.do(lab_request, lambda: lab.answer(lab_request), request.is_disconnected)
        return JSONResponse(answer)

    async def events(self, request: Request) -> Response:
        """Send the status of a run whenever it changes, until the run is over."""
        name = request.path_params["name"]

        async def read_status() -> dict[str, Any]:
            return await run_in_threadpool(self._runs.status_of, name)

        await read_status()
        if self._streams >= MOST_STREAMS:
            raise Overloaded(f"{self._streams} pages are following runs already: close some of them")
        return StreamingResponse(self._counted(_events(read_status, request)), media_type="text/event-stream")

    async def _counted(self, events: AsyncIterator[str]) -> AsyncIterator[str]:
        self._streams += 1
        try:
            async for event in events:
                yield event
        finally:
            self._streams -= 1


async def _events(read_status: Callable[[], Awaitable[dict[str, Any]]], request: Request) -> AsyncIterator[str]:
    last = ""
    while not await request.is_disconnected():
        try:
            status = await read_status()
        except BadInput:  # it was removed or damaged since; who asks again is told so
            return
        text = json.dumps({key: value for key, value in status.items() if key != "seconds_left"}, sort_keys=True)
        if text != last:
            yield f"data: {json.dumps(status)}\n\n"
            last = text
        if status["state"] != "running":
            return
        await asyncio.sleep(TICK)


def _fields(form: dict[str, Any]) -> dict[str, str]:
    """Return the fields of a form as texts."""
    for key, value in form.items():
        if isinstance(value, dict | list):
            raise BadInput(f"{brief(key)}: must be a text or a number")
    return {key: str(value) for key, value in form.items()}


async def _object(request: Request) -> dict[str, Any]:
    try:
        value = json.loads(await request.body())
    except RecursionError:
        raise BadInput("the request is nested too deeply") from None
    except ValueError:
        raise BadInput("the request is not JSON") from None
    if not isinstance(value, dict):
        raise BadInput("the request is not a JSON object")
    return value
