"""How a plan shows itself: in one line, and in a notebook as a table of what was chosen."""

from dataclasses import MISSING, fields
from html import escape
from typing import Any

from gradveil.errors import quoted


def line(plan: Any) -> str:
    """Return what is trained, on what and by how many, with the parts of the method that decide its noise."""
    rounds = f"{plan.rounds} round{'s' * (plan.rounds != 1)}"
    who = f"{plan.cohort} of {plan.clients} clients, batch {plan.batch}"
    method = f"{quoted(plan.method.clip, 50)}, {quoted(plan.method.noise, 50)}"
    return f"Plan({plan.method.name} on {plan.dataset}: {rounds}, {who}, {method})"


def html(plan: Any) -> str:
    """Return the fields that differ from their defaults as a table, under the line."""
    chosen = [(field.name, getattr(plan, field.name)) for field in fields(plan)]
    defaults = {field.name: field.default for field in fields(plan) if field.default is not MISSING}
    rows = (
        f"<tr><td>{name}</td><td>{escape(quoted(value, 300))}</td></tr>"
        for name, value in chosen
        if name not in defaults or value != defaults[name]
    )
    return f"<div>{escape(line(plan))}<table>{''.join(rows)}</table></div>"
