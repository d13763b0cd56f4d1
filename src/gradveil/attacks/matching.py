"""Gradient matching: optimize a guess until its gradient is the observed one. Most attacks are made of this."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradveil.attacks import public_stats
from gradveil.attacks.attack import Reconstruction, Trajectory
from gradveil.attacks.class_mix import beliefs
from gradveil.attacks.decoder import Decoder
from gradveil.attacks.decoder_training import trained_decoder
from gradveil.attacks.distance import Distance, Likelihood, SquaredL2
from gradveil.attacks.fit import fits
from gradveil.attacks.labels import Granted, Joint, Labels, RowSums
from gradveil.attacks.law import law_of, log_density, shown_on_average, units
from gradveil.attacks.lbfgs import Lbfgs
from gradveil.attacks.leak import Host, Leak, Reading, Stage, apart, fused
from gradveil.attacks.optimizers import Moved, Optimizer, SignedAdam
from gradveil.attacks.prior import Anything, Prior
from gradveil.attacks.public_stats import PublicStats
from gradveil.attacks.softening import Softening, follow, tempered
from gradveil.attacks.start import Start, Tiles
from gradveil.errors import BadInput
from gradveil.surface import Surface
from gradveil.tree import Array, Tree

SNAPSHOTS, SNAPSHOT_VALUES = 300, 8_000_000
"""How many snapshots of an attack are kept, and how many values in all (32 MB per victim)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """min over guesses x of sum_r distance(y_r, gradient_r(x)) + cost(x), by the parts named here.

    unrolls: the guess's gradient is replayed through the public mechanism (clips, local steps), up to `longest` local
    steps; otherwise it is the plain gradient of one batch of all guesses. `most` bounds the number of guesses: a
    reading of more examples is matched by fewer, each standing for several.

    Where several local steps are replayed, `hypotheses` are further rules for labels. ReLUs that a step turns on or off
    stop the line search of L-BFGS: a guess that does not fit what was read is sought again by `softening`, and, if
    none of the hypotheses fits, by `signed` steps of signed Adam. The guess with the least loss is kept.
    """

    name: str
    start: Start = field(default_factory=Tiles)
    distance: Distance = field(default_factory=SquaredL2)
    labels: Labels = field(default_factory=RowSums)
    hypotheses: tuple[Labels, ...] = ()
    softening: Softening | None = None
    signed: int = 0
    prior: Prior = field(default_factory=Anything)
    optimizer: Optimizer = field(default_factory=Lbfgs)
    unrolls: bool = False
    longest: int = 20
    most: int = 64
    iterations: int = 300
    stop: float = 1e-6
    restarts: int = 1

    def __post_init__(self) -> None:
        for name, least in {"longest": 1, "most": 1, "iterations": 1, "restarts": 1, "signed": 0}.items():
            if getattr(self, name) < least:
                raise BadInput(f"{name} = {getattr(self, name)}: must be at least {least}")
        if isinstance(self.optimizer, Lbfgs) and self.prior.cuts:
            raise BadInput(
                "prior: one that clamps values after a step needs the optimizer SignedAdam; L-BFGS would ignore it"
            )
        if isinstance(self.labels, Joint) and self.unrolls:
            raise BadInput("labels: Joint needs unrolls = False, which matches plain gradients")

    def refuse(self, leak: Leak) -> None:
        """Refuse a leak that lacks what a part needs."""
        self.prior.refuse(leak.stage)
        self.labels(leak, 1)

    def prepared(self, leak: Leak, key: Array) -> "Matching":
        """Return the attack itself; a decoder is trained now, and found again by all victims."""
        self._decoder(leak)
        return self

    def _decoder(self, leak: Leak) -> Tree:
        return trained_decoder(self.prior.training, leak.public) if isinstance(self.prior, Decoder) else ()

    def guesses(self, stage: Stage) -> int:
        """Return how many examples are guessed together."""
        return stage.examples if self._exactly(stage) else min(stage.examples, self.most)

    def _exactly(self, stage: Stage) -> bool:
        return self.unrolls and stage.steps <= self.longest

    def _weighs_scales(self, stage: Stage) -> bool:
        """Whether a guess is judged by its own noise, where that follows the data; else by the noise of the reading."""
        return stage.own_scale and self._exactly(stage) and isinstance(self.distance, Likelihood)

    def __call__(self, leak: Leak, key: Array) -> Reconstruction:
        """Attack one leak once, by every hypothesis about its labels until one fits."""
        n, several = self.guesses(leak.stage), leak.stage.steps > 1 and self._exactly(leak.stage)
        further = self.hypotheses if several and not isinstance(self.labels, Granted) else ()
        softens = several and self.softening is not None and leak.stage.soft is not None and not leak.stage.sparse
        results, tried = list[Reconstruction](), list[Host | None]()
        for labels in _distinct(rule(leak, n) for rule in (self.labels, *further)):
            results.append(self._by_labels(leak, labels, key))
            if softens and results[-1].fitted is False:
                results.append(self._by_labels(leak, labels, key, self.softening))
            tried += [labels] * (len(results) - len(tried))
            if results[-1].fitted:
                return results[-1]
        best = _least(results)
        if several and self.signed and results[best].fitted is False:
            results.append(self._signed()._by_labels(leak, tried[best], key))
        return results[_least(results)]

    def _signed(self) -> "Matching":
        """Return the attack that is tried where this one does not fit."""
        return replace(self, optimizer=SignedAdam(0.1, best=True), iterations=self.signed)

    def _by_labels(self, leak: Leak, labels: Host | None, key: Array, path: Softening | None = None) -> Reconstruction:
        """Attack with given labels, by the optimizer or along a path of softened networks."""
        n = self.guesses(leak.stage)
        believed = beliefs(leak) if self.prior.believes else None
        known = np.zeros(n, np.int32) if labels is None else labels
        stats = public_stats.compute(leak, known, believed, self._decoder(leak))
        plain = self if self._exactly(leak.stage) else replace(self, unrolls=False)
        readings = apart(leak) if plain._exactly(leak.stage) else fused(leak)
        # Rules for labels have been applied: without them one program serves all attacks that differ in nothing else.
        essence = plain if labels is None else replace(plain, name="", labels=Granted(), hypotheses=(), signed=0)
        essence, stage = replace(essence, softening=path), self._essence(leak.stage)
        reconstruction = Reconstruction.of(
            (_soften if path else _attempt)(essence, stage, readings, stats, key), labels
        )
        return replace(reconstruction, fitted=self._fitted(leak.stage, readings, reconstruction))

    def _fitted(self, stage: Stage, readings: Reading, reconstruction: Reconstruction) -> bool | None:
        """Whether the guess explains what was read; None where the loss is not that of an exact law."""
        if not (isinstance(self.distance, Likelihood) and self._exactly(stage) and stage.exact) or stage.own_scale:
            return None
        return reconstruction.finite and fits(
            stage, readings, self.distance, float(reconstruction.loss[-1]), reconstruction.x[-1].size
        )

    def _essence(self, stage: Stage) -> Stage:
        """Return a stage without what this attack ignores, so that one program serves all methods and surfaces."""
        if self._exactly(stage):
            return replace(stage, mu=None, draw=None)
        return replace(
            stage,
            surface=Surface.EXAMPLE,
            view="",
            mu=None,
            batch=stage.examples,
            steps=1,
            replay=_never_replayed,
            law=None,
            exact=True,
            own_scale=False,
            draw=None,
            soft=None,
        )


def _distinct(hypotheses: Iterable[Host | None]) -> Iterator[Host | None]:
    """Yield labels that were not yielded before; None stands for labels that are optimized too."""
    seen: set[bytes] = set()
    for labels in hypotheses:
        name = b"" if labels is None else np.asarray(labels, np.int64).tobytes()
        if name not in seen:
            seen.add(name)
            yield labels


def _least(results: list[Reconstruction]) -> int:
    """Return which result has the least loss."""
    return int(np.argmin([float(r.loss[-1]) if r.finite else np.inf for r in results]))


def _never_replayed(params: Tree, clip_state: Tree, x: Array, y: Array) -> Tree:
    raise AssertionError("this attack matches plain gradients")


class Guess(NamedTuple):
    """The free variables: examples as the prior writes them, and label logits [n, classes or 0 if labels are set]."""

    z: Array
    logits: Array


@partial(jax.jit, static_argnums=(0, 1))
def _attempt(attack: Matching, stage: Stage, readings: Reading, stats: PublicStats, key: Array) -> Trajectory:
    """Run one attack from one start, keeping snapshots of equal numbers of iterations."""
    n, joint = attack.guesses(stage), isinstance(attack.labels, Joint)
    image_key, label_key = jax.random.split(key)
    first = attack.prior.write(attack.start(image_key, stats, n, stage.shape), stats, stage)
    guess = Guess(first, jax.random.normal(label_key, (n, stage.classes)) if joint else jnp.zeros((n, 0)))
    objective = partial(_loss, attack, stage, readings, stats)
    snapshots = min(SNAPSHOTS, attack.iterations, max(8, SNAPSHOT_VALUES // first.size))
    every = -(-attack.iterations // snapshots)
    initial = _Run(attack.optimizer.begin(objective, guess, attack.iterations), jnp.zeros((), bool), jnp.int32(0))
    step = partial(_iterate, attack, objective, stats)

    def snapshot(run: _Run, _: None) -> tuple[_Run, Trajectory]:
        run = jax.lax.fori_loop(0, every, lambda _, r: jax.lax.cond(r.over, lambda same: same, step, r), run)
        return run, _picture(attack, stage, stats, run)

    start = _picture(attack, stage, stats, initial)
    _, later = jax.lax.scan(snapshot, initial, None, length=snapshots)
    whole: Trajectory = jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest]), start, later)
    return whole


@partial(jax.jit, static_argnums=(0, 1))
def _soften(attack: Matching, stage: Stage, readings: Reading, stats: PublicStats, key: Array) -> Trajectory:
    """Run one attack along a path of softened networks; each guess starts near the public mean of its label."""
    softening, soft = attack.softening, stage.soft
    assert softening is not None
    assert soft is not None
    near = stats._replace(center=stats.class_means[stats.labels])
    first = attack.prior.write(jax.random.normal(key, (attack.guesses(stage), *stage.shape)), near, stage)

    def smooth(z: Array, sharpness: Array, tau: Array) -> Array:
        x = attack.prior.read(z, near, stage)

        def to(reading: Reading) -> Array:
            gradient = soft((sharpness, *reading.params), reading.clip_state, x, stats.labels)
            return tempered(reading.gradient, gradient, reading.std, tau)

        outside = softening.outside(x, stats.low.min(), stats.high.max())
        return jnp.sum(jax.lax.map(to, readings)) + attack.prior.cost(z, x, near) + outside

    def exact(z: Array) -> Array:
        return _loss(attack, stage, readings, near, Guess(z, jnp.zeros((z.shape[0], 0))))

    return follow(softening, smooth, exact, lambda z: attack.prior.read(z, near, stage), first)


class _Run(NamedTuple):
    moved: Moved
    over: Array
    iterations: Array


def _iterate(attack: Matching, objective: Callable[[Tree], Array], stats: PublicStats, run: _Run) -> _Run:
    before = run.moved.loss
    moved = attack.optimizer.advance(objective, run.moved, attack.iterations, attack.stop)
    guess: Guess = moved.z
    moved = moved._replace(z=guess._replace(z=attack.prior.keep(guess.z, stats)))
    enough = (moved.loss <= attack.stop) | attack.optimizer.stalled(before, moved.loss)
    done = run.iterations + 1
    return _Run(moved, enough | (done >= attack.iterations), done)


def _picture(attack: Matching, stage: Stage, stats: PublicStats, run: _Run) -> Trajectory:
    guess: Guess
    guess, loss = attack.optimizer.current_guess(run.moved)
    x = attack.prior.read(guess.z, stats, stage)
    return Trajectory(x, guess.logits, loss, run.iterations, run.moved.evaluations)


def _loss(attack: Matching, stage: Stage, readings: Reading, stats: PublicStats, guess: Guess) -> Array:
    """Add up the distances to all readings and the cost of the guess."""
    x = attack.prior.read(guess.z, stats, stage)

    def to(reading: Reading) -> Array:
        if attack._weighs_scales(stage):
            return -log_density(reading.gradient, law_of(stage, reading, x, stats.labels), units(reading))
        gradient = _gradient(attack, stage, reading, stats, x, guess.logits)
        weights = jax.tree.map(lambda y: jnp.where(y == 0, 0.0, 1.0) if stage.sparse else jnp.ones_like(y), reading[2])
        return attack.distance(reading.gradient, gradient, reading.std, weights)

    return jnp.sum(jax.lax.map(to, readings)) + attack.prior.cost(guess.z, x, stats)


def _gradient(attack: Matching, stage: Stage, reading: Reading, stats: PublicStats, x: Array, logits: Array) -> Tree:
    """Return the reading of a guess: replayed through the mechanism, or the plain gradient of one batch."""
    if attack._exactly(stage):
        if stage.sparse:
            return shown_on_average(law_of(stage, reading, x, stats.labels))
        return stage.replay(reading.params, reading.clip_state, x, stats.labels)
    targets = jax.nn.softmax(logits) if logits.shape[1] else jax.nn.one_hot(stats.labels, stage.classes)
    return soft_gradient(stage, reading.params, x, targets)


def soft_gradient(stage: Stage, params: Tree, x: Array, targets: Array) -> Tree:
    """Return the gradient of the mean cross-entropy of n examples with label shares [n, classes]."""

    def loss(p: Tree) -> Array:
        logits = jax.vmap(partial(stage.model.apply, p))(x)
        return -jnp.mean(jnp.sum(targets * jax.nn.log_softmax(logits), axis=1))

    gradient: Tree = jax.grad(loss)(params)
    return gradient
