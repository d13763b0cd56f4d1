"""What attacks came to, for the page: the evidence at each place, and the victims as pictures or as rows of a table."""

from typing import Any

import numpy as np

from gradveil.leakage.attack_record import AttackRecord
from gradveil.reports import words
from gradveil.reports.evidence import SURFACES, WHERE, AttackEvidence, Evidence
from gradveil.reports.exhibits import Exhibit, moment_names
from gradveil.reports.pictures import data_address

TITLES = {2: "Data and local training", 1: "The client's update", 0: "The server"}
WHAT = {
    2: "type 2: the gradient of every step, inside the client",
    1: "type 1: what the client is about to send",
    0: "type 0: what arrives from each client",
}
VICTIMS = 3
"""Victims of an attack that are shown."""
FEATURES = 20
"""Features of a table row that are shown."""


def place(run: Evidence, surface: int) -> dict[str, Any]:
    """Return what the attack that says most recovered at one place."""
    best = run.strongest(surface)
    badge, kind = words.badge(None if best is None else best.record)
    says = ["No attack was tried here."] if best is None else words.evidence_of(best.record)
    bars = None if best is None else _bars(best.record)
    named = {"title": TITLES[surface], "what": WHAT[surface]}
    return named | {"badge": badge, "kind": kind, "says": says, "bars": bars}


def _bars(record: AttackRecord) -> dict[str, float] | None:
    """Return the attack's error with its interval, and that of a blind guess, in percent of the largest of them."""
    if record.membership is not None:
        return None
    ends = {"attack": record.mean_rmse, "blind": record.prior_rmse}
    if record.gain_ci is not None:
        low, high = record.gain_ci
        ends |= {"least": max(0.0, record.prior_rmse - high), "most": max(0.0, record.prior_rmse - low)}
    largest = max(ends.values())
    if not 0 < largest < float("inf"):
        return None
    return {name: round(100 * value / largest, 2) for name, value in ends.items()}


def exhibits(run: Evidence, truth: bool) -> list[dict[str, Any]]:
    """Return what all attacks have to show, place by place; where several show the very same, it is shown once."""
    views: list[dict[str, Any]] = []
    for attack in (one for s in SURFACES for one in run.attacks if one.record.surface == s):
        here = exhibit(attack, truth)
        twin = next((one for one in views if all(one[key] == here[key] for key in here if key != "titles")), None)
        if twin is None:
            views.append(here)
        else:
            twin["titles"] += here["titles"]
    return views


def exhibit(attack: AttackEvidence, truth: bool) -> dict[str, Any]:
    """Return what an attack has to show: a gallery of pictures, or the features of a table row; or words alone."""
    r, shows = attack.record, attack.exhibit
    title = f"{r.attack} {WHERE[r.surface]} ({r.view}, round {r.round})"
    base: dict[str, Any] = {"titles": [title], "says": words.outcome(r) + ".", "gallery": None, "rows": []}
    if shows is None or not truth:  # a good copy of a record is as private as the record
        return base
    return base | ({"gallery": _gallery(shows.first(VICTIMS))} if shows.is_image else {"rows": features(shows)})


def _gallery(shows: Exhibit) -> dict[str, Any]:
    """Return the victims as rows of pictures: the truth, the guess at several moments, and a blind guess."""
    names = moment_names(shows.guesses.shape[1])
    return {
        "columns": [("truth", False), *((name, name != "result") for name in names), ("prior only", False)],
        "rows": [
            {
                "name": f"client {shows.clients[i]}",
                "cells": [
                    _cell(shows.truth[i], "", False),
                    *(
                        _cell(guess, f"iteration {n}", True)
                        for guess, n in zip(shows.guesses[i][:-1], shows.iterations[i][:-1], strict=True)
                    ),
                    _cell(shows.guesses[i][-1], f"RMSE {shows.errors[i]:.3f}", False),
                    _cell(shows.prior[i], f"RMSE {shows.prior_errors[i]:.3f}", False),
                ],
            }
            for i in range(len(shows.truth))
        ],
    }


def _cell(image: np.ndarray[Any, Any], caption: str, between: bool) -> dict[str, Any]:
    return {"source": data_address(image), "caption": caption, "between": between}


def features(exhibit: Exhibit) -> list[dict[str, Any]]:
    """Return the features of the first victim: true, recovered, and guessed without gradients."""
    truth, guess, prior = exhibit.truth[0], exhibit.guesses[0][-1], exhibit.prior[0]
    columns = exhibit.columns or tuple((f"feature {i}", i, i + 1) for i in range(len(truth)))
    return [
        {
            "name": name,
            "true": _level(truth[a:b]),
            "guess": _level(guess[a:b]),
            "prior": _level(prior[a:b]),
            "hit": _level(truth[a:b]) == _level(guess[a:b]),
        }
        for name, a, b in columns[:FEATURES]
    ]


def _level(part: np.ndarray[Any, Any]) -> str:
    """Name the level of a category by its place, or write a number."""
    if len(part) == 1:
        return f"{float(part[0]):.2f}"
    return f"level {int(np.argmax(part)) + 1} of {len(part)}" if part.any() else "none"
