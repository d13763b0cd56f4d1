"""A trained model as a value: predict, score, save, export and report it."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy.special import logsumexp, softmax

from gradveil import pipeline
from gradveil.data.arrow_table import frame_table, is_frame
from gradveil.data.schema_encoding import targets
from gradveil.errors import BadInput, machine_errors, quoted
from gradveil.federation import server
from gradveil.federation.evaluate import Score, logits
from gradveil.federation.plan import Plan
from gradveil.inference import exporting, notebook
from gradveil.inference.examples import Array, array_of, stored, with_features
from gradveil.inference.new_examples import from_frame
from gradveil.keys import Keys
from gradveil.leakage.attack_record import AttackRecord
from gradveil.runs import store
from gradveil.runs.epsilon_records import GuaranteeRecord
from gradveil.runs.given_data import path_of
from gradveil.runs.run_records import RoundLine, RunResult
from gradveil.tree import Tree

BLOCK = 20_000
"""Examples that are read, encoded and predicted at a time."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, repr=False)
class Trained:
    """A trained model: its plan, its parameters, its classes and the result that its run reported.

    encoding: how examples are read. history: one line a round. folder: the run folder; of a run without one of its own,
    a temporary one that is gone when the model is. attacks, page: what attacks on the run found, and where its page is,
    if `train` was asked for them.
    """

    plan: Plan
    params: Tree
    classes: tuple[str, ...]
    encoding: store.EncodingRecord
    result: RunResult
    history: tuple[RoundLine, ...]
    folder: Path
    attacks: tuple[AttackRecord, ...] = ()
    page: Path | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example, as `predict` takes it."""
        return self.encoding.shape

    @machine_errors()
    def scores(self, x: Any) -> Array:
        """Return the logits [n, classes], block by block; of a number [n, 1], with its low at -1 and its high at 1.

        x: examples [n, ...] as the dataset stores them, or a frame of pandas, polars or pyarrow with its columns.
        """
        examples = from_frame(x, self.encoding, self.plan.client_column) if is_frame(x) else array_of(x, self.shape)
        blocks = [self._scores(examples[at : at + BLOCK]) for at in range(0, len(examples), BLOCK)]
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.classes)), np.float32)

    def _scores(self, examples: Array) -> Array:
        ready = with_features(self.plan, stored(self.encoding, examples))
        computed: Array = logits(self.plan.model, self.params, ready)[:, -len(self.classes) :]
        return computed

    def predict_proba(self, x: Any) -> Array:
        """Return the probability of each class, float64 [n, classes], rows in the order of the examples."""
        if self.encoding.target_range is not None:
            raise BadInput("predict_proba: this model predicts a number, which has no classes; use predict")
        probabilities: Array = softmax(self.scores(x).astype(np.float64), axis=1)
        return probabilities

    def predict(self, x: Any, *, names: bool = False) -> Array:
        """Return the likeliest class of each example: its number, or with `names` its name among `classes`.

        Where a number is predicted, that number, float64, in the units of the target.
        """
        if self.encoding.target_range is not None:
            low, high = self.encoding.target_range
            values: Array = low + (self.scores(x)[:, -1].astype(np.float64) + 1) * (high - low) / 2
            return values
        likeliest: Array = np.argmax(self.scores(x), axis=1)
        return np.array(self.classes, dtype=object)[likeliest] if names else likeliest

    def evaluate(self, x: Any, y: Any = None) -> Score:
        """Return accuracy, mean cross-entropy and n; where a number is predicted, RMSE and mean squared error.

        y: numbers of classes, or their names as text; by default the target's column of a frame x.
        """
        if self.encoding.target_range is not None:
            return self._evaluate_number(x, y)
        if y is None:
            y = self._labels(x)
        scores = self.scores(x).astype(np.float64)
        numbers = self._numbers(y, len(scores))
        losses = logsumexp(scores, axis=1) - scores[np.arange(len(scores)), numbers]
        return Score(float(np.mean(np.argmax(scores, axis=1) == numbers)), float(np.mean(losses)), len(scores))

    def _evaluate_number(self, x: Any, y: Any) -> Score:
        predictions = self.predict(x)
        if y is None:
            low, high = self.encoding.target_range or (-1.0, 1.0)
            y = low + (self._labels(x).astype(np.float64) + 1) * (high - low) / 2
        truth = np.asarray(y)
        if truth.shape != predictions.shape or not len(predictions) or truth.dtype.kind not in "fiub":
            raise BadInput(f"y: one number for each of {len(predictions)} examples is expected")
        error = float(np.mean(np.square(predictions - truth)))
        return Score(None, error, len(predictions), error**0.5)

    def _labels(self, x: Any) -> Array:
        schema = self.encoding.table
        if schema is None or not is_frame(x):
            raise BadInput("y: labels are needed, unless x is a frame with the column of the target")
        labels, known = targets(schema, frame_table(x, "x"))
        if not known.all():
            raise BadInput(f"x: row {int(np.argmin(known))} has no value of {schema.target.name!r}")
        return labels

    def _numbers(self, y: Any, count: int) -> Array:
        labels = np.asarray(y)
        if labels.shape != (count,) or not count:
            raise BadInput(f"y: one label for each of {count} examples is expected, not the shape {labels.shape}")
        if labels.dtype.kind in "iu":
            known: Any = (labels >= 0) & (labels < len(self.classes))
            numbers = labels.astype(np.int64)
        else:
            index = {name: number for number, name in enumerate(self.classes)}
            numbers = np.array([index.get(str(label), -1) for label in labels.tolist()])
            known = numbers >= 0
        if not known.all():
            wrong = labels[int(np.argmin(known))]
            raise BadInput(f"y = {quoted(wrong)}: is no class; the classes are {', '.join(self.classes)}, from 0 on")
        return numbers

    def guarantee(self, threat_model: str = "server") -> GuaranteeRecord:
        """Return what holds against one adversary, a name from `gradveil list threats`."""
        return self.result.guarantee(threat_model)

    @machine_errors()
    def save(self, folder: str | Path) -> Path:
        """Copy the run folder to a new place, from which `gradveil.load` reads the model."""
        place = _new("folder", folder)
        if not store.exists(self.folder / store.PLAN):
            raise BadInput(f"{str(self.folder)!r}: the run folder is gone, so it cannot be saved")
        partial = place.with_name(f".{place.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(self.folder, partial)
        os.rename(partial, place)
        return place

    @machine_errors()
    def export(self, path: str | Path) -> Path:
        """Write the parameters (.npz or .safetensors) or the whole function (.stablehlo) for other programs."""
        return exporting.export(self.plan, self.params, self.encoding, self._metadata(), path_of("path", path))

    def _metadata(self) -> dict[str, str]:
        named = {"dataset": self.result.dataset, "method": self.result.method, "classes": list(self.classes)}
        return exporting.texts(named | {"params_sha256": self.result.params_sha256})

    @machine_errors()
    def report(self, out: str | Path | None = None) -> Path:
        """Write the page of the run: report.html in its folder, or the file `out`."""
        return pipeline.report([self.folder], self.folder / pipeline.REPORT if out is None else path_of("out", out))

    def __repr__(self) -> str:
        return f"Trained({notebook.sentence(self.result)})"

    def _repr_html_(self) -> str:
        return notebook.html(self.result, self.history)


def read_trained(folder: Path, model: object = None) -> Trained:
    """Return the model of a finished run; BadInput if its parameters are not those of its result.

    model: the network, where the run folder cannot name it.
    """
    plan = store.read_plan(folder) if model is None else store.plan_with_model(folder, model)
    data = store.read_data(folder)
    history = store.inspect(folder, plan)
    result = store.read_result(folder, history.heads[-1])
    if result is None:
        raise BadInput(f"{str(folder)!r}: holds no finished run")
    like = jax.eval_shape(lambda: server.init(plan, data.shape, len(data.classes), Keys.of(0, False)).params)
    params = store.read_params(folder, like, result.params_sha256)
    encoding = store.read_encoding(folder, data)
    return Trained(plan, params, data.classes, encoding, result, tuple(history.lines), folder)


def trained_of(outcome: pipeline.RunOutcome) -> Trained:
    """Return the model of a run that was just carried out."""
    run = outcome.run
    data = store.read_data(run.folder)
    return Trained(
        run.plan,
        server.model_of(run.plan, run.state),
        data.classes,
        store.read_encoding(run.folder, data),
        outcome.result,
        tuple(run.lines),
        run.folder,
        outcome.attacks,
        outcome.page,
    )


def in_temporary_folder(carry_out: Callable[[Path], Trained]) -> Trained:
    """Train in a folder that is removed when the model is no longer used, or when training fails."""
    place = tempfile.mkdtemp(prefix="gradveil-")
    try:
        model = carry_out(Path(place) / "run")
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    weakref.finalize(model, shutil.rmtree, place, ignore_errors=True)
    return model


def _new(name: str, value: Any) -> Path:
    path = Path(os.path.abspath(path_of(name, value)))
    if os.path.lexists(path):
        raise BadInput(f"{name} = {str(path)!r}: exists already; name a new one")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
