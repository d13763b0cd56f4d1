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

from gradveil.data.sources import describe
from gradveil.errors import BadInput
from gradveil.methods import METHODS
from gradveil.reports import page as reports
from gradveil.web import lab
from gradveil.web.guard import Guard, Rules
from gradveil.web.shelf import OPTIONS, Runs

TICK = 0.5
Answer = Callable[[Request], Awaitable[Response]]


def make(runs: Runs, rules: Rules) -> Starlette:
    """Make the server of a folder of runs."""
    here = Pages(runs, rules)
    routes = [
        Route("/", here.index),
        Route("/new", here.new),
        Route("/lab", here.lab),
        Route("/compare", here.compare),
        Route("/api/runs", here.start, methods=["POST"]),
        Route("/api/lab", here.attack, methods=["POST"]),
        Route("/api/runs/{name:path}/stop", here.stop, methods=["POST"]),
        Route("/api/runs/{name:path}/resume", here.resume, methods=["POST"]),
        Route("/events/{name:path}", here.events),
        Route("/report/{name:path}", here.report),
        Route("/run/{name:path}", here.run),
        Route("/static/{name}", static),
    ]
    handlers: Any = {BadInput: refused}
    return Starlette(routes=routes, middleware=[Middleware(Guard, rules=rules)], exception_handlers=handlers)


async def refused(request: Request, error: Exception) -> Response:
    """Answer what the command line would say."""
    if request.method == "GET":
        return PlainTextResponse(f"{error}\n", 404)
    return JSONResponse({"error": str(error)}, 400)


@cache
def _templates() -> Environment:
    loader = ChoiceLoader([PackageLoader("gradveil.web"), PackageLoader("gradveil.reports")])
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


STATIC = {"page.js": "text/javascript", "style.css": "text/css"}


async def static(request: Request) -> Response:
    """Give the script or the style sheet, and nothing else."""
    name = request.path_params["name"]
    if name not in STATIC:
        return PlainTextResponse("there is no such file\n", 404)
    if name == "style.css":
        return Response(reports.style(), media_type=STATIC[name])
    return Response(files("gradveil.web").joinpath("page.js").read_text(encoding="utf-8"), media_type=STATIC[name])


class Pages:
    """What each address answers."""

    def __init__(self, runs: Runs, rules: Rules) -> None:
        self._runs, self._rules = runs, rules
        self._one_at_a_time = asyncio.Lock()

    def _page(self, template: str, **given: Any) -> Response:
        text = _templates().get_template(template).render(form=self._rules.form, **given)
        return HTMLResponse(text)

    async def index(self, request: Request) -> Response:
        """List the runs."""
        told = await run_in_threadpool(self._runs.listed)
        return self._page("index.html", title="Runs", runs=told)

    async def new(self, request: Request) -> Response:
        """Show the form of a new run."""
        names = [source.name for source in describe()]
        return self._page("new.html", title="New run", datasets=names, methods=list(METHODS), options=OPTIONS)

    async def lab(self, request: Request) -> Response:
        """Show the lab."""
        return self._page(
            "lab.html", title="Leak lab", datasets=lab.DATASETS, methods=lab.METHOD_NAMES, attacks=lab.ATTACK_NAMES
        )

    async def run(self, request: Request) -> Response:
        """Show one run, live."""
        name = request.path_params["name"]
        return self._page("run.html", title=name, run=await run_in_threadpool(self._runs.told, name))

    async def report(self, request: Request) -> Response:
        """Give the report of a run; a user's own records are not in it."""
        name = request.path_params["name"]
        return HTMLResponse(await run_in_threadpool(lambda: reports.page([self._runs.evidence(name)])))

    async def compare(self, request: Request) -> Response:
        """Give one page about several runs."""
        names = request.query_params.getlist("run")
        if len(names) < 2:
            raise BadInput("choose at least two runs to compare")
        return HTMLResponse(await run_in_threadpool(lambda: reports.page([self._runs.evidence(n) for n in names])))

    async def start(self, request: Request) -> Response:
        """Start a run; what the command line refuses is refused in its words."""
        wanted = {str(k): str(v) for k, v in (await _object(request)).items()}
        return JSONResponse({"name": await run_in_threadpool(self._runs.start, wanted)})

    async def stop(self, request: Request) -> Response:
        """Stop a run."""
        return await self._act(self._runs.stop, request)

    async def resume(self, request: Request) -> Response:
        """Go on with a run."""
        return await self._act(self._runs.resume, request)

    async def _act(self, act: Callable[[str], None], request: Request) -> Response:
        await run_in_threadpool(act, request.path_params["name"])
        return JSONResponse({"name": request.path_params["name"]})

    async def attack(self, request: Request) -> Response:
        """Attack one picture."""
        question = lab.Question.of(await _object(request))
        async with self._one_at_a_time:
            return JSONResponse(await run_in_threadpool(lab.answer, question))

    async def events(self, request: Request) -> Response:
        """Tell of a run whenever something changes, until it is over."""
        name = request.path_params["name"]

        async def tell() -> dict[str, Any]:
            return await run_in_threadpool(self._runs.told, name)

        await tell()
        return StreamingResponse(_events(tell, request), media_type="text/event-stream")


async def _events(tell: Callable[[], Awaitable[dict[str, Any]]], request: Request) -> AsyncIterator[str]:
    last = ""
    while not await request.is_disconnected():
        told = await tell()
        text = json.dumps({key: value for key, value in told.items() if key != "seconds_left"}, sort_keys=True)
        if text != last:
            yield f"data: {json.dumps(told)}\n\n"
            last = text
        if told["state"] != "running":
            return
        await asyncio.sleep(TICK)


async def _object(request: Request) -> dict[str, Any]:
    try:
        value = json.loads(await request.body())
    except ValueError:
        raise BadInput("the request is not JSON") from None
    if not isinstance(value, dict):
        raise BadInput("the request is not a JSON object")
    return value
