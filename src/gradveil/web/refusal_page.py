"""The page of a refusal: one sentence below the links of all pages, with its style inside for those not let in."""

from functools import cache
from http import HTTPStatus

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from gradveil.reports.page import style


def refusal_page(status: int, sentence: str) -> str:
    """Return the page; the sentence is escaped."""
    return _template().render(status=status, title=HTTPStatus(status).phrase, sentence=sentence, style=style())


@cache
def _template() -> Template:
    loader = PackageLoader("gradveil.web")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template("refusal.html")
