"""What every attack promises: it finds what can be found, says what it lacks, and repeats itself to the bit."""

from dataclasses import dataclass, field, replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gradveil.attacks.analytic import Analytic
from gradveil.attacks.attack import Reconstruction, Trajectory, mount
from gradveil.attacks.exact import Exact
from gradveil.attacks.labels import Counts, Granted, Joint, MatchedFilter, RowSums
from gradveil.attacks.lbfgs import Lbfgs
from gradveil.attacks.leak import Column, Leak, Public, Reading, Stage
from gradveil.attacks.learned import Learned
from gradveil.attacks.matching import Matching
from gradveil.attacks.metrics import rmse
from gradveil.attacks.optimizers import SignedAdam
from gradveil.attacks.prior import Levels, TotalVariation
from gradveil.attacks.start import ClassMean, Normal, Tiles
from gradveil.attacks.zoo import ATTACKS, CPL, IDLG, LEARNED, TABLE, UNROLLED
from gradveil.errors import BadInput
from gradveil.models.gradients import per_example_gradients
from gradveil.models.networks import Mlp
from gradveil.surface import Surface

EXAMPLES = {
    "dlg": {},
    "idlg": {},
    "cpl": {},
    "gradinv": {"iterations": 600},
    "gradinv-layers": {"iterations": 600},
    "gradinv-lbfgs": {},
    "analytic": {},
    "exact": {},
    "map": {},
    "unrolled": {},
    "table": {},
    "learned": {"kept": 32, "hidden": 32, "steps": 500},
}
"""What is made smaller of each attack, so that the laws are quick; all other parts are its own."""
MATCHING = [name for name in ATTACKS if isinstance(ATTACKS[name].value, Matching)]
ALL = pytest.mark.parametrize("name", ATTACKS)
CLASSES, FEATURES = 3, 10
COLUMNS = (
    Column("kind", 0, 3),
    *(Column(f"number {i}", i, i + 1) for i in range(3, 8)),
    Column("side", 8, 10),
)


@dataclass(frozen=True)
class Linear:
    """logits = x W + b."""

    def apply(self, params, x):
        return x.reshape(-1) @ params[0] + params[1]


@dataclass(frozen=True)
class OneGradient:
    """The plainest mechanism: the gradient of a single example is read."""

    model: object

    def __call__(self, params, clip_state, x, y):
        return jax.tree.map(lambda a: jnp.mean(a, axis=0), per_example_gradients(self.model, params, x, y))


STAGE = Stage(
    model=Linear(),
    shape=(FEATURES,),
    classes=CLASSES,
    surface=Surface.EXAMPLE,
    view="released",
    batch=1,
    steps=1,
    replay=OneGradient(Linear()),
    columns=COLUMNS,
)
LABELS = np.array([0, 2, 1])


def small(name):
    return replace(ATTACKS[name].value, **EXAMPLES[name])


def table_rows(n, seed):
    """Rows of two levels and five numbers in [0, 1]."""
    random = np.random.default_rng(seed)
    levels = [np.eye(size)[random.integers(0, size, n)] for size in (3, 2)]
    return np.concatenate([levels[0], random.uniform(0, 1, (n, 5)), levels[1]], axis=1).astype(np.float32)


ROWS = table_rows(3, 1)
PUBLIC = Public(table_rows(300, 2), np.arange(300) % CLASSES)


@cache
def linear_params():
    weights = 0.3 * np.random.default_rng(0).normal(size=(FEATURES, CLASSES))
    return weights.astype(np.float32), np.linspace(-0.2, 0.2, CLASSES, dtype=np.float32)


def silent(gradient):
    return jax.tree.map(lambda a: np.zeros((), np.float32), gradient)


def leak_of(gradient, stage=STAGE, **others):
    reading = Reading(linear_params(), (), gradient, silent(gradient))
    return Leak(stage, (reading,), PUBLIC, **others)


@cache
def victims():
    """Three victims, one example each, read without noise."""
    replay = jax.jit(STAGE.replay)
    pairs = zip(ROWS, LABELS, strict=True)
    return [leak_of(jax.device_get(replay(linear_params(), (), x[None], y[None]))) for x, y in pairs]


def spoiled(leak):
    """The same leak, but what was read is no number."""
    return leak_of(jax.tree.map(lambda a: np.full_like(a, np.nan), leak.readings[0].gradient), leak.stage)


@cache
def founds(name):
    return mount(small(name), victims(), seed=0)


def same_bits(one, other):
    for part in ("x", "labels", "loss", "iterations", "evaluations", "attempts", "diverged"):
        np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


def error(found, row):
    return rmse(found.x[-1], row[None])[0]


def test_every_attack_has_an_example():
    assert set(EXAMPLES) == set(ATTACKS)
    assert all(entry.value.name == name for name, entry in ATTACKS.items())


@ALL
def test_a_linear_model_without_noise_gives_its_example_away(name):
    errors = np.array([error(found, row) for found, row in zip(founds(name), ROWS, strict=True)])
    labels = [found.labels.tolist() for found in founds(name)] == LABELS[:, None]
    match small(name):
        case Analytic() | Exact():
            assert labels.all()
            assert errors.max() < 1e-4
        case Learned():  # it only interpolates between public examples
            assert labels.all()
            assert errors.mean() < 0.7 * rmse(np.broadcast_to(PUBLIC.x.mean(axis=0), ROWS.shape), ROWS).mean()
        case Matching(labels=Joint()):  # begun at a wrong label it may run away, as DLG is known to
            assert labels.sum() >= 2
            assert errors[labels[:, 0]].max() < 0.02
        case Matching():
            assert labels.all()
            assert errors.max() < 0.02


@ALL
def test_snapshots_belong_together_and_count_upwards(name):
    for found in founds(name):
        assert found.x.shape == (len(found.loss), 1, FEATURES)
        assert len(found.loss) == len(found.iterations) == len(found.evaluations)
        assert (np.diff(found.iterations) > 0).all()
        assert (np.diff(found.evaluations) >= 0).all()
        assert found.finite
        assert found.attempts == small(name).restarts
        assert found.diverged == 0
        assert found.seconds > 0


@ALL
def test_a_victim_fares_the_same_to_the_bit_alone_and_among_others(name):
    (alone,) = mount(small(name), victims()[:1], seed=0)
    same_bits(alone, founds(name)[0])


@ALL
def test_the_same_seed_gives_the_same_bits(name):
    for found, same in zip(founds(name), mount(small(name), victims(), seed=0), strict=True):
        same_bits(found, same)


@pytest.mark.parametrize("name", MATCHING)
def test_another_seed_is_another_start_and_so_is_another_victim(name):
    for found, new in zip(founds(name), mount(small(name), victims(), seed=1), strict=True):
        assert not np.array_equal(found.x[0], new.x[0])
    assert not np.array_equal(founds(name)[0].x[0], founds(name)[1].x[0])


@ALL
def test_a_victim_that_gives_no_number_is_restarted_and_disturbs_no_other(name):
    one, two, _ = victims()
    bad, other = mount(small(name), [spoiled(one), two], seed=0)
    assert not bad.finite
    assert bad.diverged == bad.attempts == small(name).restarts + 2
    same_bits(other, founds(name)[1])


@pytest.mark.parametrize(
    "labels",
    [
        Counts(),
        MatchedFilter(),
    ],
)
def test_a_batch_that_gives_no_number_disturbs_no_other(labels):
    stage = replace(STAGE, batch=3)
    good = leak_of(victims()[0].readings[0].gradient, stage)
    for attack in (Analytic(labels=labels), Exact(labels=labels)):
        bad, other = mount(attack, [spoiled(good), good], seed=0)
        assert not bad.finite
        assert other.finite


KEEPS_THE_BEST = [n for n in MATCHING if getattr(ATTACKS[n].value.optimizer, "best", True)]


@pytest.mark.parametrize("name", KEEPS_THE_BEST)
def test_the_loss_of_a_snapshot_is_never_above_that_of_the_one_before(name):
    for found in founds(name):
        assert found.loss[0] == np.inf  # nothing was evaluated yet
        assert (np.diff(found.loss[1:]) <= 0).all()


@dataclass
class Watched:
    """An attack that is written down, start by start."""

    attack: object
    brought: list = field(default_factory=list)

    @property
    def name(self):
        return self.attack.name

    @property
    def restarts(self):
        return self.attack.restarts

    def refuse(self, leak):
        self.attack.refuse(leak)

    def prepared(self, leak, key):
        return self

    def __call__(self, leak, key):
        self.brought.append(self.attack(leak, key))
        return self.brought[-1]


def test_of_several_starts_the_one_with_the_smallest_loss_is_kept():
    for victim in victims():
        watched = Watched(small("table"))
        (found,) = mount(watched, [victim], seed=0)
        losses = [float(one.loss[-1]) for one in watched.brought]
        assert len(set(losses)) == 3
        assert found.loss[-1] == min(losses)
        np.testing.assert_array_equal(found.x, watched.brought[int(np.argmin(losses))].x)


def brought(loss, x=0.0):
    one = np.ones(1, np.int32)
    return Reconstruction(np.full((1, 1, FEATURES), x), None, np.array([loss]), one, one)


@dataclass
class Scripted:
    """An attack whose starts end as they are told to."""

    ends: list
    restarts: int
    name: str = "scripted"

    def refuse(self, leak):
        pass

    def prepared(self, leak, key):
        return self

    def __call__(self, leak, key):
        return self.ends.pop(0)


@pytest.mark.parametrize(
    ("restarts", "ends", "kept", "attempts", "diverged"),
    [
        (1, [brought(5.0)], 5.0, 1, 0),
        (3, [brought(5.0), brought(2.0), brought(3.0)], 2.0, 3, 0),
        (1, [brought(np.nan), brought(4.0)], 4.0, 2, 1),
        (1, [brought(np.inf), brought(1e30), brought(4.0)], 4.0, 3, 2),
        (1, [brought(1.0, x=np.nan), brought(4.0)], 4.0, 2, 1),
        (2, [brought(5.0), brought(np.nan), brought(3.0)], 3.0, 3, 1),
        (2, [brought(np.nan), brought(np.nan), brought(np.nan), brought(7.0)], 7.0, 4, 3),
        (1, [brought(np.inf)] * 3, np.inf, 3, 3),
    ],
)
def test_starts_that_give_no_number_are_made_up_for_twice_at_most(restarts, ends, kept, attempts, diverged):
    (found,) = mount(Scripted(list(ends), restarts), victims()[:1], seed=0)
    assert (found.loss[-1], found.attempts, found.diverged) == (kept, attempts, diverged)
    assert np.isfinite(found.x).all()


@dataclass(frozen=True)
class Unlucky:
    """A start that is no number half of the time."""

    def __call__(self, key, known, n, shape):
        drawn = jax.random.uniform(key, (n, *shape))
        return jnp.where(jax.random.bernoulli(jax.random.fold_in(key, 1)), drawn, jnp.nan)


@cache
def unlucky_founds():
    """Eight times the same victim, of whose gradient a third was held back, attacked from starts that may fail."""
    row, label = np.linspace(0.2, 0.8, FEATURES, dtype=np.float32), LABELS[1:2]
    gradient = [np.array(a) for a in jax.jit(STAGE.replay)(linear_params(), (), row[None], label)]
    gradient[0][np.arange(FEATURES), np.arange(FEATURES) % CLASSES] = 0
    leak = leak_of(tuple(gradient), replace(STAGE, sparse=True), labels=label)
    return row, mount(replace(CPL, start=Unlucky(), labels=Granted()), [leak] * 8, seed=0)


def test_a_start_that_gives_no_number_is_replaced_by_one_that_does():
    _, found = unlucky_founds()
    assert {one.diverged for one in found} >= {0, 1}
    for one in found:
        assert one.attempts == min(1 + one.diverged, 3)
        assert one.finite == (one.diverged < one.attempts)


def test_coordinates_that_were_held_back_are_not_matched():
    # Every value of the example is above 0: a gradient that is truly zero looks as if it was held back.
    row, found = unlucky_founds()
    assert max(error(one, row) for one in found if one.finite) < 0.02


def test_all_are_told_of_as_they_are_done():
    told = []
    mount(Analytic(), victims(), seed=0, done=told.append)
    assert sorted(told) == [0, 1, 2]


def test_a_trajectory_is_cut_after_its_last_move_and_labels_are_those_at_the_end():
    x, logits = np.arange(10.0).reshape(5, 1, 2), np.eye(3)[[0, 1, 2, 0, 0]][:, None]
    iterations = np.array([0, 4, 7, 7, 7])
    found = Reconstruction.of(Trajectory(x, logits, np.array([9.0, 3, 2, 2, 2]), iterations, 3 * iterations), None)
    np.testing.assert_array_equal(found.x, x[:3])
    assert found.labels.tolist() == [2]
    assert found.loss.tolist() == [9, 3, 2]
    assert found.iterations.tolist() == [0, 4, 7]
    assert found.evaluations.tolist() == [0, 12, 21]
    assert Reconstruction.of(
        Trajectory(x, logits[..., :0], x[:, 0, 0], iterations, iterations), np.array([1])
    ).labels == [1]


PICTURES = replace(STAGE, shape=(6, 6, 1), columns=())


def leak_with(shapes, stage=STAGE, **others):
    return leak_of(tuple(np.ones(s, np.float32) for s in shapes), stage, **others)


DENSE = ((FEATURES, CLASSES), (CLASSES,))


def without_bias():
    return leak_with([(FEATURES, 12), (12, CLASSES)])


def twice(stage=STAGE):
    """Two readings, at different parameters."""
    leak = leak_with(DENSE, stage)
    moved = leak.readings[0]._replace(params=jax.tree.map(lambda a: a + 1, linear_params()))
    return Leak(stage, (leak.readings[0], moved), PUBLIC)


@pytest.mark.parametrize(
    ("attack", "leak", "sentence"),
    [
        (Analytic(), without_bias, "attack = analytic: needs a model whose first layer is dense and has a bias"),
        (Analytic(), lambda: leak_with([(9, 4), (4,), *DENSE], PICTURES), "attack = analytic: needs a model"),
        (Analytic(), lambda: leak_with([(FEATURES, CLASSES)]), "attack = analytic: needs a model"),
        (replace(CPL, labels=Granted()), lambda: leak_with(DENSE), "leak: holds no labels, and this attack needs"),
        (TABLE, lambda: leak_with([(36, CLASSES), (CLASSES,)], PICTURES), "leak: its examples are not table rows"),
        (LEARNED, lambda: leak_with(DENSE, replace(STAGE, batch=2)), "attack = learned: needs readings of one example"),
        (LEARNED, lambda: leak_with(DENSE, replace(STAGE, steps=2)), "attack = learned: needs readings of one example"),
        (LEARNED, twice, "attack = learned: needs readings at the same parameters"),
        (CPL, lambda: leak_with([(FEATURES, 4), (4,)]), "leak: its model does not end in a dense layer"),
        (IDLG, lambda: leak_with([(FEATURES, 3, 3)]), "leak: its model does not end in a dense layer"),
    ],
)
def test_a_leak_that_lacks_a_part_is_refused_in_one_sentence_before_anyone_is_attacked(attack, leak, sentence):
    watched = Watched(attack)
    with pytest.raises(BadInput, match=f"^{sentence}") as refusal:
        mount(watched, [victims()[0], leak()], seed=0)
    said = str(refusal.value)
    assert len(said) < 120
    assert not any(end in said for end in ("\n", ". ", "!"))
    assert not watched.brought


@ALL
def test_a_leak_that_lacks_nothing_is_not_refused(name):
    small(name).refuse(victims()[0])


def test_a_leak_without_readings_is_refused():
    with pytest.raises(BadInput, match=r"^leak: holds no reading"):
        Leak(STAGE, (), PUBLIC)


def test_labels_that_are_granted_are_taken_as_they_are():
    leak = leak_with(DENSE, replace(STAGE, batch=3), labels=np.array([2, 2, 1]))
    assert Granted()(leak, 3).tolist() == [2, 2, 1]
    assert Granted()(leak, 5).tolist() == [2, 2, 1, 2, 2]


@pytest.mark.parametrize(
    ("batch", "steps", "plain", "unrolled"), [(1, 1, 1, 1), (3, 1, 3, 3), (5, 20, 64, 100), (5, 21, 64, 64)]
)
def test_as_many_examples_are_guessed_as_were_read_up_to_a_bound_unless_steps_are_unrolled(
    batch, steps, plain, unrolled
):
    stage = replace(STAGE, batch=batch, steps=steps)
    assert (CPL.guesses(stage), UNROLLED.guesses(stage)) == (plain, unrolled)


def test_the_closed_form_takes_another_unit_for_every_guess():
    random = np.random.default_rng(0)
    weights, bias = random.normal(size=(FEATURES, 4)).astype(np.float32), np.float32([0.1, -3.0, 2.0, -0.5])
    last = (np.ones((4, CLASSES), np.float32), np.ones(CLASSES, np.float32))
    leak = leak_of((weights, bias, *last), replace(STAGE, model=Mlp(hidden=(4,), bias=True), batch=9))
    found = Analytic(labels=RowSums(), most=6)(leak, jax.random.key(0))
    expected = [weights[:, unit] / bias[unit] for unit in (1, 2, 3, 0, 1, 2)]
    np.testing.assert_allclose(found.x[-1], expected, rtol=1e-6)
    assert len(found.labels) == 6


def valley(x, radius):
    """Rosenbrock's function; beyond the radius it is no number."""
    value = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
    return value if radius is None else jnp.where(jnp.sum(x * x) > radius**2, jnp.nan, value)


@partial(jax.jit, static_argnums=0)
def descent(optimizer, start, radius):
    """Points, losses and evaluations after each of 150 iterations."""
    objective = partial(valley, radius=radius)

    def one(moved, _):
        moved = optimizer.advance(objective, moved, 150, 0.0)
        return moved, (moved.z, moved.loss, moved.evaluations)

    return jax.lax.scan(one, optimizer.begin(objective, start, 150), None, length=150)[1]


START = np.float32([-0.5, 0.5, -0.3])


@pytest.mark.parametrize(("radius", "low"), [(10.0, 1e-6), (1.0, 0.27)])
def test_no_step_of_lbfgs_raises_the_loss_also_at_the_edge_of_what_is_a_number(radius, low):
    points, losses, evaluations = map(np.asarray, descent(Lbfgs(inner=1, history_size=5), START, radius))
    np.testing.assert_allclose(losses, [valley(p.astype(float), None) for p in points], rtol=1e-4, atol=1e-9)
    assert (np.linalg.norm(points, axis=1) <= radius).all()
    assert (np.diff(losses) <= 0).all()
    assert (np.diff(evaluations) >= 0).all()
    assert losses[-1] < low  # the minimum is 0 at (1, 1, 1); on the unit ball scipy's SLSQP finds 0.245 at its edge


@pytest.mark.parametrize("optimizer", [Lbfgs(inner=1, history_size=5), SignedAdam()])
def test_an_objective_that_is_never_a_number_moves_nothing_and_is_no_success(optimizer):
    points, losses, _ = map(np.asarray, descent(optimizer, START, 0.1))
    np.testing.assert_array_equal(points, np.broadcast_to(START, points.shape))
    assert not brought(float(losses[-1])).finite


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: replace(CPL, iterations=0), "iterations"),
        (lambda: replace(CPL, restarts=0), "restarts"),
        (lambda: replace(CPL, most=0), "most"),
        (lambda: replace(CPL, longest=0), "longest"),
        (lambda: Lbfgs(inner=0), "inner"),
        (lambda: Lbfgs(history_size=0), "history_size|inner"),
        (lambda: SignedAdam(0.0), "rate"),
        (lambda: SignedAdam(float("nan")), "rate"),
        (lambda: Tiles(0), "times"),
        (lambda: ClassMean(-1.0), "spread"),
        (lambda: TotalVariation(-1.0), "weight"),
        (lambda: TotalVariation(float("nan")), "weight"),
    ],
)
def test_a_senseless_number_is_refused_by_name(make, name):
    with pytest.raises(BadInput, match=f"^({name}) = "):
        make()


def test_the_zoo_differs_in_the_parts_that_its_listing_names():
    parts = {name: small(name) for name in MATCHING}
    assert isinstance(parts["dlg"].start, Normal)
    assert isinstance(parts["cpl"].start, Tiles)
    assert isinstance(parts["table"].prior, Levels)
    assert [name for name, attack in parts.items() if attack.unrolls] == ["map", "unrolled", "table"]


# Under Fed-CDP

MANY, SMALL_EPSILON = 10, 4.4
"""Victims, and the sigma at which one release is (1, 1e-5)-DP for an example, by the exact Gaussian trade-off."""
CLIPS = dict.fromkeys(ATTACKS, 0.5) | dict.fromkeys(("dlg", "idlg", "cpl"), 4.0)
"""0.5 bites for every example; 4 for none, since these match the length of a gradient and fail where it was cut."""


@dataclass(frozen=True)
class Clipped:
    """The gradient of one example, clipped to c in all: what Fed-CDP noises."""

    c: float

    def __call__(self, params, clip_state, x, y):
        gradient = OneGradient(Linear())(params, clip_state, x, y)
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(a)) for a in gradient))
        return jax.tree.map(lambda a: a * jnp.minimum(1.0, self.c / norm), gradient)


def released(name, sigma):
    """What Fed-CDP releases of each of MANY rows: clipped, and noised by sigma C."""
    replay, random = Clipped(CLIPS[name]), np.random.default_rng(6)
    std = np.float32(sigma * CLIPS[name])
    for row, label in zip(table_rows(MANY, 5), np.arange(MANY) % CLASSES, strict=True):
        value = jax.device_get(replay(linear_params(), (), row[None], label[None]))
        noised = tuple(a + std * random.normal(size=a.shape).astype(np.float32) for a in value)
        reading = Reading(linear_params(), (), noised, (std, std))
        yield Leak(replace(STAGE, replay=replay), (reading,), PUBLIC)


def gained(name, sigma):
    """What an attack gains over the public mean for each row, as a share of that guess's error."""
    rows, leaks = table_rows(MANY, 5), list(released(name, sigma))
    guesses = np.stack([np.clip(one.x[-1][0], 0, 1) for one in mount(small(name), leaks, seed=0, cores=1)])
    prior = rmse(np.broadcast_to(PUBLIC.x.mean(axis=0), rows.shape), rows)
    return (prior - rmse(guesses, rows)) / prior.mean()


@ALL
def test_noise_of_fed_cdp_at_a_small_epsilon_stops_it_and_without_that_noise_the_same_gradients_leak(name):
    stopped, control = gained(name, SMALL_EPSILON), gained(name, 0.0)
    half = stats.t.ppf(0.975, MANY - 1) * stats.sem(stopped)
    # What a verdict calls nothing found: no gain is seen, and one of a tenth of the error would have been.
    assert stopped.mean() - half <= 0
    assert stopped.mean() + half < 0.1
    assert np.median(control) > 0.3
