"""The parts of attacks against loops, textbook formulas and scipy: starts, distances, priors, labels, readings."""

from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special, stats

from gradveil.attacks import identify
from gradveil.attacks.class_mix import beliefs, likelihood
from gradveil.attacks.distance import DISTANCES, Cosine, LayerwiseCosine, Likelihood, SquaredL2
from gradveil.attacks.labels import Counts, Depending, Joint, MatchedFilter, RowSums, Sign, listed
from gradveil.attacks.lbfgs import Lbfgs
from gradveil.attacks.leak import Column, Leak, Public, Reading, Stage, fused, merged, noise_std
from gradveil.attacks.lineup import lineup
from gradveil.attacks.metrics import overlap
from gradveil.attacks.optimizers import SignedAdam
from gradveil.attacks.prior import PRIORS, Box, Gaussian, Levels, Squashed, TotalVariation
from gradveil.attacks.public_stats import PublicStats, compute
from gradveil.attacks.score import Truth
from gradveil.attacks.start import STARTS, ClassMean, ConstantStart, Normal, Tiles, Uniform
from gradveil.models.gradients import per_example_gradients
from gradveil.models.networks import Mlp
from gradveil.surface import Surface

CLASSES = 3
PICTURE, ODD, ROW = (6, 6, 1), (7, 5, 3), (10,)
COLUMNS = (Column("kind", 0, 3), *(Column(f"number {i}", i, i + 1) for i in range(3, 8)), Column("side", 8, 10))
MODEL = Mlp(hidden=(12,), bias=True)


@dataclass(frozen=True)
class MeanGradient:
    """The plainest mechanism: the gradients of a batch are added up and divided by its public size."""

    batch: int

    def __call__(self, params, clip_state, x, y):
        weights = jnp.where(y < 0, 0.0, 1.0) / self.batch
        lot = per_example_gradients(MODEL, params, x, jnp.maximum(y, 0))
        return jax.tree.map(lambda a: jnp.tensordot(weights, a, 1), lot)


def stage(shape=PICTURE, batch=1, columns=()):
    return Stage(
        model=MODEL,
        shape=shape,
        classes=CLASSES,
        surface=Surface.EXAMPLE,
        view="released",
        batch=batch,
        steps=1,
        replay=MeanGradient(batch),
        columns=columns,
    )


def matrix(random, inputs, outputs):
    limit = np.sqrt(6 / (inputs + outputs))
    return random.uniform(-limit, limit, (inputs, outputs)).astype(np.float32)


@cache
def params():
    """An untrained network, as Mlp.init draws it."""
    random = np.random.default_rng(1)
    return matrix(random, 36, 12), np.zeros(12, np.float32), matrix(random, 12, CLASSES), np.zeros(CLASSES, np.float32)


def pictures(n, seed):
    """Pictures in [0, 1] that scatter about the centre of their class, and their labels."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(0).uniform(0.1, 0.9, (CLASSES, *PICTURE))
    y = random.integers(0, CLASSES, n)
    return np.clip(centres[y] + 0.05 * random.normal(size=(n, *PICTURE)), 0, 1).astype(np.float32), y


PUBLIC = Public(*pictures(200, seed=1))
each = jax.jit(partial(per_example_gradients, MODEL))


def shown_by(x, y, at=None):
    """The gradient of each example; always of 200 at once, so that it is compiled once."""
    spare = 200 - len(y)
    lot = each(params() if at is None else at, np.pad(x, ((0, spare), *((0, 0),) * 3)), np.pad(y, (0, spare)))
    return [np.asarray(a)[: len(y)] for a in lot]


def leak_of(x, y, std=0.0, random=None, batch=None):
    """What these examples show, with noise."""
    batch = batch or len(y)
    gradient = tuple(a.sum(axis=0) / np.float32(batch) for a in shown_by(x, y))
    if std:
        gradient = tuple((a + std * random.normal(size=a.shape)).astype(np.float32) for a in gradient)
    reading = Reading(params(), (), gradient, tuple(np.float32(std) for _ in gradient))
    return Leak(stage(batch=batch), (reading,), PUBLIC)


def leaks_of(x, y, std=0.0, random=None):
    """What each example shows alone."""
    lot = shown_by(x, y)
    noise = [std * random.normal(size=a.shape) if std else np.zeros(()) for a in lot]
    stds = tuple(np.float32(std) for _ in lot)
    noised = [(a + b).astype(np.float32) for a, b in zip(lot, noise, strict=True)]
    readings = [Reading(params(), (), tuple(a[i] for a in noised), stds) for i in range(len(y))]
    return [Leak(stage(), (reading,), PUBLIC) for reading in readings]


def facts(shape, labels=(0, 1, 2, 1), n=40, beliefs=None):
    """Public facts about examples with values in [-1, 2], on the host so that little is compiled."""
    random = np.random.default_rng(4)
    public = Public(random.uniform(-1, 2, (n, *shape)).astype(np.float32), np.arange(n) % CLASSES)
    return learned_from(public, labels, beliefs), public


def table_facts(n=40):
    """Public facts about rows of two levels and five numbers in [-1, 2]."""
    random = np.random.default_rng(4)
    kind, side = np.eye(3)[random.choice(3, n, p=(0.2, 0.7, 0.1))], np.eye(2)[random.integers(0, 2, n)]
    x = np.concatenate([kind, random.uniform(-1, 2, (n, 5)), side], axis=1)
    public = Public(x.astype(np.float32), np.arange(n) % CLASSES)
    return learned_from(public, (0, 1, 2, 1)), public


def learned_from(public, labels, beliefs=None):
    reading = Reading((), (), (np.zeros(1),), (np.zeros(1),))
    leak = Leak(stage(public.x.shape[1:]), (reading,), public)
    return PublicStats(*map(np.asarray, compute(leak, np.asarray(labels), beliefs)))


# Starts


@pytest.mark.parametrize("start", STARTS, ids=repr)
@pytest.mark.parametrize("shape", [PICTURE, ODD, ROW])
def test_a_start_has_the_shape_of_the_guesses(start, shape):
    known, _ = facts(shape)
    drawn = jax.eval_shape(lambda key, known: start(key, known, 4, shape), jax.random.key(0), known)
    assert (drawn.shape, drawn.dtype) == ((4, *shape), np.float32)


@jax.jit
def drawn(key, known):
    """All starts at once, for pictures and for rows, so that they are compiled once."""
    return [[start(key, known[i], 4, shape) for start in STARTS] for i, shape in enumerate((ODD, ROW))]


def start_of(start, shape=ODD, seed=1):
    return np.asarray(
        drawn(jax.random.key(seed), (facts(ODD)[0], facts(ROW)[0]))[[ODD, ROW].index(shape)][STARTS.index(start)]
    )


@pytest.mark.parametrize("start", STARTS, ids=repr)
def test_a_start_has_the_range_it_promises(start):
    x = start_of(start)
    match start:
        case Uniform() | Tiles():
            assert ((x >= 0) & (x < 1)).all()
            assert stats.kstest(np.unique(x), "uniform").pvalue > 1e-3
        case Normal():
            assert stats.kstest(x.ravel(), "norm").pvalue > 1e-3
            assert stats.kstest(x.ravel() / 1.5, "norm").pvalue < 1e-3
        case ConstantStart():
            assert (x == 0.5).all()
        case ClassMean():
            _, public = facts(ODD)
            for guess, label in zip(x, (0, 1, 2, 1), strict=True):
                np.testing.assert_allclose(guess, public.x[label::CLASSES].mean(axis=0), rtol=1e-5, atol=1e-6)
    if isinstance(start, Uniform | Normal | Tiles):
        assert len({guess.tobytes() for guess in x}) == 4
        assert not np.array_equal(x, start_of(start, seed=2))


@pytest.mark.parametrize(("times", "tall", "wide"), [(2, 4, 3), (4, 2, 2)])
def test_tiles_repeat_over_pictures_of_any_sides(times, tall, wide):
    x = start_of(Tiles(times))
    for i, j in product(range(7), range(5)):
        np.testing.assert_array_equal(x[:, i, j], x[:, i % tall, j % wide])
    assert len(np.unique(x)) == 4 * tall * wide * 3


@pytest.mark.parametrize(("times", "long"), [(2, 5), (4, 3)])
def test_tiles_repeat_along_a_row(times, long):
    x = start_of(Tiles(times), ROW)
    for i in range(10):
        np.testing.assert_array_equal(x[:, i], x[:, i % long])
    assert len(np.unique(x)) == 4 * long


# What is known


def test_what_is_known_are_means_and_ranges_and_a_class_without_examples_has_the_mean_of_all():
    public = Public(np.float32([[1, 2], [3, 8], [5, 5]]), np.array([0, 0, 2]))
    known = learned_from(public, [1])
    assert known.mean.tolist() == known.center.tolist() == [3, 5]
    assert known.class_means.tolist() == [[2, 5], [3, 5], [5, 5]]
    assert known.low.tolist() == [1, 2]
    assert known.high.tolist() == [5, 8]
    assert known.labels.tolist() == [1]
    np.testing.assert_allclose(known.deviation, [np.sqrt(8 / 3), np.sqrt(6)], rtol=1e-6)


def test_the_centre_is_the_mean_of_the_classes_that_are_believed():
    public = Public(np.float32([[1, 2], [3, 8], [5, 5]]), np.array([0, 0, 2]))
    known = learned_from(public, [1], np.array([0.5, 0.0, 0.5]))
    assert known.mean.tolist() == [3, 5]
    assert known.center.tolist() == [3.5, 5]


# Distances

SHAPES = ((3, 2), (4,))


def gradients(seed):
    random = np.random.default_rng(seed)
    return tuple(random.normal(size=s).astype(np.float32) for s in SHAPES)


def flat(tree):
    return np.concatenate([np.ravel(np.asarray(a, np.float64)) for a in jax.tree.leaves(tree)])


READ, GUESSED, OTHER = (gradients(seed) for seed in (0, 1, 2))
STD = (np.float32(0.7), np.float32([0.5, 1.0, 2.0, 4.0]))  # one for a layer, one for each coordinate
EVERY = tuple(np.ones(s, np.float32) for s in SHAPES)
SOME = (np.float32([[1, 0], [0, 1], [1, 1]]), np.float32([0, 1, 1, 0]))
SPREAD = np.concatenate([np.full(6, 0.7), [0.5, 1.0, 2.0, 4.0]])


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_a_distance_is_zero_at_equality_and_never_negative(distance):
    assert float(distance(READ, READ, STD, EVERY)) == pytest.approx(0, abs=1e-6)
    for guess in (GUESSED, OTHER, jax.tree.map(np.negative, READ), jax.tree.map(np.zeros_like, READ)):
        assert float(distance(READ, guess, STD, EVERY)) > 0.1


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_a_distance_does_not_look_at_coordinates_of_weight_zero(distance):
    spoiled = jax.tree.map(lambda g, w: np.where(w > 0, g, 1e3).astype(np.float32), GUESSED, SOME)
    one, same, whole = (
        float(distance(READ, g, STD, w)) for g, w in ((GUESSED, SOME), (spoiled, SOME), (GUESSED, EVERY))
    )
    assert one == same
    assert one != whole


@pytest.mark.parametrize("weights", [EVERY, SOME], ids=["every", "some"])
def test_squares_and_angles_are_those_of_vectors(weights):
    kept = flat(weights) > 0
    y, g = flat(READ)[kept], flat(GUESSED)[kept]
    squared, angle = (float(d(READ, GUESSED, STD, weights)) for d in (SquaredL2(), Cosine()))
    assert squared == pytest.approx(sum((a - b) ** 2 for a, b in zip(y, g, strict=True)), rel=1e-5)
    assert angle == pytest.approx(1 - y @ g / np.linalg.norm(y) / np.linalg.norm(g), rel=1e-5)


@pytest.mark.parametrize("scale", [1e-3, 0.5, 40.0])
def test_only_the_direction_counts_for_the_angle(scale):
    scaled = jax.tree.map(lambda a: np.float32(scale) * a, GUESSED)
    angle = float(Cosine()(READ, GUESSED, STD, EVERY))
    assert float(Cosine()(READ, scaled, STD, EVERY)) == pytest.approx(angle, rel=1e-5)
    assert float(Cosine()(scaled, READ, STD, EVERY)) == pytest.approx(angle, rel=1e-5)
    assert float(SquaredL2()(READ, scaled, STD, EVERY)) != pytest.approx(float(SquaredL2()(READ, GUESSED, STD, EVERY)))


@pytest.mark.parametrize(
    "minus", [lambda g: Likelihood()(READ, g, STD, EVERY), lambda g: -likelihood(READ, g, STD)], ids=["loss", "score"]
)
def test_the_likelihood_is_the_log_density_of_gaussian_noise_up_to_a_constant(minus):
    densities = [stats.norm.logpdf(flat(READ), flat(g), SPREAD).sum() for g in (GUESSED, OTHER)]
    assert float(minus(OTHER) - minus(GUESSED)) == pytest.approx(densities[0] - densities[1], rel=1e-5)


def test_a_reading_without_noise_is_given_a_thousandth_of_its_size_as_noise():
    quiet = tuple(np.float32(0) for _ in SHAPES)
    size = np.sqrt(np.mean(flat(READ) ** 2))
    expected = np.sum((flat(READ) - flat(GUESSED)) ** 2) / 2 / (1e-3 * size) ** 2
    assert float(Likelihood()(READ, GUESSED, quiet, EVERY)) == pytest.approx(expected, rel=1e-4)
    assert -float(likelihood(READ, GUESSED, quiet)) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("weights", [EVERY, SOME], ids=["every", "some"])
def test_layerwise_angles_are_averaged_and_a_layer_of_which_nothing_was_read_counts_as_matched(weights):
    layers = [[np.asarray(a).ravel() for a in jax.tree.leaves(t)] for t in (READ, GUESSED, weights)]
    angles = []
    for y, g, w in zip(*layers, strict=True):
        y, g = y[w > 0].astype(float), g[w > 0].astype(float)
        angles.append(1 - y @ g / np.linalg.norm(y) / np.linalg.norm(g) if y.any() else 0.0)
    assert float(LayerwiseCosine()(READ, GUESSED, STD, weights)) == pytest.approx(np.mean(angles), rel=1e-5)


def test_signed_adam_that_keeps_its_best_shows_the_smallest_loss_it_saw():
    optimizer, n = SignedAdam(0.3, best=True), 16
    moved, seen = optimizer.begin(jnp.sum, jnp.array([1.0, -0.4]), n), []
    for _ in range(n):
        at = np.asarray(moved.z, np.float64)
        seen.append((float(np.sum(at**2)), at))
        moved = optimizer.advance(lambda z: jnp.sum(jnp.square(z)), moved, n, 0.0)
        loss, z = min(seen, key=lambda pair: pair[0])
        shown, at_loss = optimizer.current_guess(moved)
        np.testing.assert_allclose(shown, z, rtol=1e-6)
        assert float(at_loss) == pytest.approx(loss, rel=1e-5)
    assert loss < seen[-1][0]


# Priors


@pytest.mark.parametrize(
    ("prior", "shape"),
    [(p, s) for p in PRIORS for s in (PICTURE, ROW) if s == ROW or not isinstance(p, Levels)],
    ids=repr,
)
def test_what_a_prior_writes_it_reads_as_examples_and_prices_with_one_number(prior, shape):
    known, at = facts(shape)[0], stage(shape, columns=COLUMNS if shape == ROW else ())

    def whole(x, known):
        z = prior.write(x, known, at)
        read = prior.read(z, known, at)
        return z, read, prior.keep(z, known), prior.cost(z, read, known)

    x = np.float32(np.random.default_rng(0).uniform(size=(4, *shape)))
    z, read, kept, cost = jax.eval_shape(whole, x, known)
    assert read.shape == x.shape
    assert read.dtype == cost.dtype == np.float32
    assert kept.shape == z.shape
    assert cost.shape == ()


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_guesses_that_start_apart_are_written_apart(prior):
    known, _ = table_facts()
    x = np.float32(np.random.default_rng(0).uniform(size=(50, *ROW)))
    at = stage(ROW, columns=COLUMNS)
    read = np.asarray(prior.read(prior.write(x, known, at), known, at))
    assert len({guess.tobytes() for guess in read}) == 50  # guesses that start as one move as one
    if isinstance(prior, Squashed):  # z = x stands for another value: at the ends of the range the sine is flat
        low, high = float(known.low.min()), float(known.high.max())
        np.testing.assert_allclose((read - low) / (high - low), (1 + np.sin(x)) / 2, rtol=1e-5)
    elif not isinstance(prior, Gaussian | Levels):
        np.testing.assert_array_equal(read, x)


@pytest.mark.parametrize("prior", [Box(), TotalVariation()])
def test_a_box_keeps_values_within_the_public_range_and_leaves_what_is_inside(prior):
    known, public = facts(PICTURE)
    z = np.float32(np.random.default_rng(0).normal(scale=3, size=(4, *PICTURE)))
    low, high = public.x.min(), public.x.max()
    kept = np.asarray(prior.keep(z, known))
    expected = [min(max(value, low), high) for value in z.ravel()]
    np.testing.assert_array_equal(kept.ravel(), np.float32(expected))
    assert (z < low).any()
    assert (z > high).any()


@pytest.mark.parametrize("smooth", [TotalVariation, Squashed])
def test_total_variation_is_the_mean_of_neighbours_differences(smooth):
    x = np.float32(np.random.default_rng(0).uniform(size=(2, *ODD)))
    down = [abs(x[n, i + 1, j, c] - x[n, i, j, c]) for n, i, j, c in product(*map(range, (2, 6, 5, 3)))]
    right = [abs(x[n, i, j + 1, c] - x[n, i, j, c]) for n, i, j, c in product(*map(range, (2, 7, 4, 3)))]
    cost = float(smooth(0.3).cost(None, x, None))
    assert cost == pytest.approx(0.3 * (np.mean(down) + np.mean(right)), rel=1e-5)
    assert float(smooth(0.3).cost(None, x[0, 0], None)) == 0


def test_a_squashed_value_reaches_both_ends_of_the_public_range_and_leaves_it_nowhere():
    known, public = facts(PICTURE)
    low, high = float(public.x.min()), float(public.x.max())
    z = np.float32(np.resize([-7 * np.pi / 2, -np.pi / 2, 0, np.pi / 2, 40.0], (1, *PICTURE)))
    assert (np.asarray(Squashed().keep(z, known)) == z).all()
    read = np.asarray(Squashed().read(z, known, stage(PICTURE))).ravel()[:5]
    expected = [high, low, (low + high) / 2, high, low + (high - low) * (1 + np.sin(40.0)) / 2]
    np.testing.assert_allclose(read, expected, atol=1e-5)


def covariance(public):
    """How examples vary by n / 4 directions and an even floor, from the covariance matrix itself."""
    rows = public.x.reshape(len(public.x), -1).astype(np.float64)
    n, p = rows.shape
    variances, directions = np.linalg.eigh(np.cov(rows.T))
    k = min(n // 4, p - 1)
    top, floor = directions[:, -k:], variances[:-k].sum() / (p - k)
    return top @ np.diag(variances[-k:]) @ top.T + floor * (np.eye(p) - top @ top.T)


@pytest.mark.parametrize(("shape", "n"), [(PICTURE, 60), (ROW, 200)])
def test_the_gaussian_prior_varies_as_public_examples_do(shape, n):
    known, public = facts(shape, n=n)
    p = int(np.prod(shape))
    read = partial(Gaussian().read, stats=known, stage=stage(shape))
    origin = read(np.zeros((1, *shape), np.float32))
    np.testing.assert_allclose(origin[0], public.x.mean(axis=0), atol=1e-6)
    columns = (read(np.eye(p, dtype=np.float32).reshape(p, *shape)) - origin).reshape(p, p).T  # a basis vector each
    np.testing.assert_allclose(columns @ columns.T, covariance(public), atol=1e-4)
    assert np.abs(columns @ columns.T - np.diag(np.diag(columns @ columns.T))).max() > 0.01


def test_the_gaussian_prior_is_centred_where_the_classes_that_are_believed_are():
    known, public = facts(ROW, beliefs=np.array([0.0, 0.25, 0.75]))
    centre = 0.25 * public.x[1::CLASSES].mean(axis=0) + 0.75 * public.x[2::CLASSES].mean(axis=0)
    np.testing.assert_allclose(Gaussian().read(np.zeros((1, *ROW)), known, stage(ROW))[0], centre, atol=1e-5)


@pytest.mark.parametrize("prior", [Gaussian(), Levels()])
def test_a_prior_prices_a_guess_by_its_white_coordinates(prior):
    z = np.float32([[1, 2], [3, -4]])
    assert float(prior.cost(z, None, None)) == (1 + 4 + 9 + 16) / 2


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_only_a_prior_with_a_centre_asks_which_classes_are_believed(prior):
    assert prior.believes == isinstance(prior, Gaussian)


@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0])
def test_levels_are_shares_and_numbers_lie_within_the_public_range(scale):
    known, public = table_facts()
    z = np.float32(scale * np.random.default_rng(0).normal(size=(50, 10)))
    rows = np.asarray(Levels().read(z, known, stage(ROW, columns=COLUMNS)))
    assert rows.shape == z.shape
    for start, stop in ((0, 3), (8, 10)):
        np.testing.assert_allclose(rows[:, start:stop].sum(axis=1), 1, rtol=1e-5)
        assert (rows[:, start:stop] >= 0).all()
    numbers = public.x[:, 3:8]
    assert ((rows[:, 3:8] >= numbers.min(axis=0)) & (rows[:, 3:8] <= numbers.max(axis=0))).all()
    if scale == 100:
        assert (rows[:, 3:8].max(axis=0) == numbers.max(axis=0)).all()
        assert (rows[:, 3:8].min(axis=0) == numbers.min(axis=0)).all()


def test_levels_and_numbers_follow_the_shares_means_and_deviations_of_public_rows():
    known, public = table_facts()
    z = np.float32(0.3 * np.random.default_rng(0).normal(size=(50, 10)))
    z[0] = 0
    rows = np.asarray(Levels(2.0).read(z, known, stage(ROW, columns=COLUMNS)))
    for start, stop in ((0, 3), (8, 10)):
        weights = public.x[:, start:stop].mean(axis=0) * np.exp(2.0 * z[:, start:stop].astype(np.float64))
        np.testing.assert_allclose(rows[:, start:stop], weights / weights.sum(axis=1, keepdims=True), rtol=1e-4)
    numbers = public.x[:, 3:8].astype(np.float64)
    np.testing.assert_allclose(rows[:, 3:8], numbers.mean(axis=0) + numbers.std(axis=0) * z[:, 3:8], atol=1e-5)
    np.testing.assert_allclose(rows[0], public.x.mean(axis=0), atol=1e-5)


# Labels


@pytest.mark.parametrize("rule", [Sign(), RowSums(), Counts(), MatchedFilter(), Depending(Sign(), Joint())], ids=repr)
def test_the_label_of_one_example_is_exact_without_noise(rule):
    x, y = pictures(40, seed=5)
    assert [int(rule(leak, 1)[0]) for leak in leaks_of(x, y)] == y.tolist()


@pytest.mark.parametrize("n", [3, 8])
@pytest.mark.parametrize("rule", [Counts(), MatchedFilter(), Depending(Joint(), Counts())], ids=repr)
def test_the_labels_of_a_batch_are_counted(rule, n):
    for seed in range(12):
        x, y = pictures(n, seed=100 + seed)
        found = rule(leak_of(x, y), n)
        np.testing.assert_array_equal(np.sort(found), np.sort(y))
        counts = [list(found).count(label) for label in dict.fromkeys(found)]
        assert counts == sorted(counts, reverse=True)  # the commonest first


@pytest.mark.parametrize("n", [3, 8])
def test_column_sums_alone_do_not_count_the_labels_of_a_batch(n):
    wrong = [
        sorted(RowSums()(leak_of(x, y), n)) != sorted(y) for x, y in (pictures(n, seed=100 + s) for s in range(12))
    ]
    assert sum(wrong) >= 6


def test_under_heavy_noise_the_matched_filter_still_sees_labels_where_column_sums_hardly_do():
    x, y = pictures(200, seed=6)
    leaks = leaks_of(x, y, 2.0, np.random.default_rng(9))
    sums, matched = (np.mean([rule(leak, 1)[0] for leak in leaks] == y) for rule in (RowSums(), MatchedFilter()))
    # Chance is 1/3; any of these shares has a deviation of at most 0.035.
    assert sums < 0.55
    assert matched > 0.7


def one_layer_noised(leak, random):
    """The same leak with much noise on its first layer, and hardly any on the others."""
    (one,) = leak.readings
    first = np.float32(one.gradient[0] + 20 * random.normal(size=one.gradient[0].shape))
    stds = (np.float32(20), *(np.float32(0.01) for _ in one.std[1:]))
    return Leak(leak.stage, (one._replace(gradient=(first, *one.gradient[1:]), std=stds),), PUBLIC)


def test_the_matched_filter_trusts_the_layers_that_are_not_noised():
    random, (x, y) = np.random.default_rng(9), pictures(30, seed=6)
    leaks = [one_layer_noised(leak, random) for leak in leaks_of(x, y)]
    assert [int(MatchedFilter()(leak, 1)[0]) for leak in leaks] == y.tolist()


def test_the_matched_filter_of_a_batch_trusts_the_layers_that_are_not_noised():
    random = np.random.default_rng(9)
    for seed in range(12):
        x, y = pictures(3, seed=100 + seed)
        found = MatchedFilter()(one_layer_noised(leak_of(x, y), random), 3)
        np.testing.assert_array_equal(np.sort(found), np.sort(y))


@dataclass(frozen=True)
class Centred:
    """A mechanism that takes a public centre off each gradient and puts it back on the mean, as AdaClip does."""

    batch: int

    def __call__(self, params, clip_state, x, y):
        weights = jnp.where(y < 0, 0.0, 1.0) / self.batch
        lot = per_example_gradients(MODEL, params, x, jnp.maximum(y, 0))
        return jax.tree.map(lambda a, m: m + jnp.tensordot(weights, a - m, 1), lot, clip_state)


@pytest.mark.parametrize("rule", [Counts(), MatchedFilter()], ids=repr)
def test_labels_are_counted_through_a_mechanism_with_a_centre(rule):
    random = np.random.default_rng(0)
    centre = tuple(np.float32(random.normal(size=a.shape)) for a in params())
    for seed in range(6):
        x, y = pictures(3, seed=100 + seed)
        plain = leak_of(x, y)
        leak = Leak(replace(plain.stage, replay=Centred(3)), (plain.readings[0]._replace(clip_state=centre),), PUBLIC)
        np.testing.assert_array_equal(np.sort(rule(leak, 3)), np.sort(y))


@cache
def lopsided():
    """Victims of whom seven in ten are of the first class, as are public examples: batches of one and of eight."""
    random = np.random.default_rng(4)

    def drawn(n, seed):
        x, y = pictures(4 * n, seed)
        chosen = np.concatenate([np.flatnonzero(y == c)[: int(share * n)] for c, share in enumerate((0.7, 0.2, 0.1))])
        chosen = random.permutation(chosen)
        return x[chosen], y[chosen]

    return drawn(160, 11), Public(*drawn(200, 12))


@pytest.mark.parametrize("std", [0.3, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("rule", [Counts(), MatchedFilter()], ids=repr)
def test_labels_are_never_told_worse_than_by_the_public_shares_alone(rule, batch, std):
    (x, y), public = lopsided()
    random, usual = np.random.default_rng(2), listed(np.array([0.7, 0.2, 0.1]), batch)
    told, guessed = [], []
    for start in range(0, 160, batch):
        part = slice(start, start + batch)
        leak = replace(leak_of(x[part], y[part], std, random), public=public)
        told.append(overlap(rule(leak, batch), y[part], CLASSES))
        guessed.append(overlap(usual, y[part], CLASSES))
    differences = np.subtract(told, guessed)
    assert differences.mean() > -2 * differences.std() / np.sqrt(len(differences)) - 1e-9
    if std == 30:  # nothing is left of the reading
        assert abs(differences.mean()) < 0.05


def test_beliefs_are_the_posterior_of_classes_or_their_shares_in_a_batch():
    x, y = pictures(40, seed=5)
    quiet, loud = leaks_of(x, y)[:3], leaks_of(x, y, 2.0, np.random.default_rng(0))
    for leak, label in zip(quiet, y[:3], strict=True):
        np.testing.assert_allclose(beliefs(leak), np.eye(CLASSES)[label], atol=1e-6)
    lot = shown_by(PUBLIC.x, PUBLIC.y)
    means = [flat([a[PUBLIC.y == c][:20].mean(axis=0) for a in lot]) for c in range(CLASSES)]
    for leak in loud[:3]:
        read = flat(leak.readings[0].gradient)
        logs = np.array([stats.norm.logpdf(read, mean, 2.0).sum() for mean in means])
        logs += np.log(np.bincount(PUBLIC.y) + 0.5)  # the public shares are what is believed beforehand
        np.testing.assert_allclose(beliefs(leak), np.exp(logs - special.logsumexp(logs)), rtol=1e-2)
    x, y = pictures(8, seed=101)
    np.testing.assert_allclose(beliefs(leak_of(x, y)), np.bincount(y, minlength=CLASSES) / 8, atol=0.06)


def test_an_attack_that_seeks_the_label_itself_is_told_none():
    x, y = pictures(1, seed=0)
    assert Joint()(leak_of(x, y), 1) is None


# Readings


def reading(at, value, std, shape=(4,)):
    return Reading(at, (), (np.full(shape, value, np.float32),), (np.asarray(std, np.float32),))


def test_readings_at_the_same_parameters_are_averaged():
    at = (np.ones(2, np.float32),)
    readings = [reading(at, value, 0.6) for value in (1, 2, 6, 7)]
    whole = fused(Leak(stage(), tuple(readings), PUBLIC))
    assert whole.gradient[0].tolist() == [[4, 4, 4, 4]]
    np.testing.assert_allclose(whole.std[0], [0.6 / 2], rtol=1e-6)
    assert whole.params[0].tolist() == [[1, 1]]


def test_the_noise_of_the_mean_is_that_of_unequal_readings_and_layers():
    at, random = (np.ones(2, np.float32),), np.random.default_rng(0)
    stds = random.uniform(0.1, 2, (3, 4))
    whole = fused(Leak(stage(), tuple(reading(at, 0, std) for std in stds), PUBLIC))
    np.testing.assert_allclose(whole.std[0][0], np.sqrt((stds**2).sum(axis=0)) / 3, rtol=1e-5)


def test_readings_at_different_parameters_are_stacked():
    one, other = (np.ones(2, np.float32),), (np.zeros(2, np.float32),)
    leak = Leak(stage(), (reading(one, 1, 0.5), reading(other, 5, 0.3), reading(one, 3, 0.5)), PUBLIC)
    whole, first = fused(leak), merged(leak)
    assert whole.gradient[0].tolist() == [[2] * 4, [5] * 4]
    assert whole.params[0].tolist() == [[1, 1], [0, 0]]
    np.testing.assert_allclose(whole.std[0], [0.5 / np.sqrt(2), 0.3], rtol=1e-6)
    assert first.gradient[0].tolist() == [2] * 4
    assert first.params[0].tolist() == [1, 1]


def test_noise_that_is_not_known_is_read_off_the_release():
    random = np.random.default_rng(0)
    gradient = (np.float32(0.3 * random.normal(size=(100, 150))), np.float32(0.3 * random.normal(size=5000)))
    std = noise_std(Reading((), (), gradient, (np.float32(np.nan), np.full(5000, np.nan, np.float32))))
    np.testing.assert_allclose(std[0], 0.3, rtol=0.01)
    np.testing.assert_allclose(std[1], np.full(5000, 0.3), rtol=0.01)
    known = noise_std(Reading((), (), gradient, (np.float32(0.1), np.float32(np.nan))))
    assert known[0] == np.float32(0.1)


def test_readings_of_one_leak_add_up_to_a_larger_mu():
    at = (np.ones(2, np.float32),)
    leak = Leak(replace(stage(), mu=0.2), tuple(reading(at, 0, 1) for _ in range(9)), PUBLIC)
    assert leak.mu == pytest.approx(0.6)
    assert Leak(stage(), (reading(at, 0, 1),), PUBLIC).mu is None


# Which of n candidates


@pytest.mark.parametrize("n", [2, 10, 1000])
def test_the_bound_is_chance_at_mu_0_and_grows_to_1(n):
    values = [identify.bound(mu, n) for mu in np.linspace(0, 12, 60)]
    assert values[0] == pytest.approx(1 / n, rel=1e-12)
    assert (np.diff(values) > -1e-15).all()
    assert (np.diff(values[:20]) > 0).all()
    assert values[-1] == pytest.approx(1)


@pytest.mark.parametrize(
    ("mu", "readings", "success"),
    [
        (np.sqrt(3) / 6, 1, 0.160),
        (np.sqrt(3) / 6, 10, 0.356),
        (np.sqrt(3) / 6, 100, 0.946),
        (1 / 6, 1, 0.132),
        (1 / 6, 10, 0.225),
        (1 / 6, 100, 0.650),
    ],
)
def test_the_bound_for_10_candidates(mu, readings, success):
    assert identify.bound(mu * np.sqrt(readings), 10) == pytest.approx(success, abs=5e-4)


def test_the_bound_is_what_the_best_test_of_a_shifted_normal_reaches():
    # Chance 1/n of a false alarm sets the threshold; the true shift is mu.
    drawn = np.random.default_rng(0).normal(size=400_000)
    threshold = np.quantile(drawn, 1 - 1 / 10)
    assert identify.bound(1.5, 10) == pytest.approx(np.mean(drawn + 1.5 > threshold), abs=0.005)


def test_the_true_record_is_the_likeliest_without_noise():
    x, y = pictures(12, seed=7)
    for true, leak in enumerate(leaks_of(x, y)):
        scores = identify.log_likelihoods(leak, x[:, None], y[:, None])
        assert scores.shape == (12,)
        assert scores.argmax() == true
        assert scores[true] == pytest.approx(0, abs=1e-3)


def test_scores_are_the_log_densities_of_all_readings_together():
    random, (x, y) = np.random.default_rng(3), pictures(12, seed=7)
    moved = tuple(a + np.float32(0.1) for a in params())
    one, other = (leak_of(x[:1], y[:1], std, random).readings[0] for std in (0.5, 0.8))
    leak = Leak(stage(), (one, other._replace(params=moved)), PUBLIC)
    expected = np.zeros(12)
    for read, at, std in ((one, params(), 0.5), (other, moved, 0.8)):
        lot = shown_by(x, y, at)
        expected += [stats.norm.logpdf(flat(read.gradient), flat([a[i] for a in lot]), std).sum() for i in range(12)]
    scores = identify.log_likelihoods(leak, x[:, None], y[:, None])
    np.testing.assert_allclose(scores - scores[0], expected - expected[0], rtol=1e-3, atol=0.02)


def identified(leak, truth, sizes, random):
    return [trial.hit for trial in lineup(leak, truth, 0, sizes, random).values()]


def test_the_referee_asks_for_the_true_record_among_public_ones_and_a_tie_is_a_miss():
    x, y = pictures(1, seed=8)
    leak, random = leak_of(x, y), np.random.default_rng(0)
    assert identified(leak, Truth(x, y), (2, 10, 12), random) == [True, True, True]
    twins = Leak(stage(), leak.readings, Public(np.repeat(x, 20, axis=0), np.repeat(y, 20)))
    assert identified(twins, Truth(x, y), (2, 10, 12), random) == [False, False, False]


def test_the_referee_grants_the_rest_of_a_batch_and_fills_it_up_with_empty_places():
    x, y = pictures(5, seed=8)  # batches of three on average, of which this one has five
    leak = leak_of(x, y, batch=3)
    assert identified(leak, Truth(x, y), (2, 12), np.random.default_rng(0)) == [True, True]
    firsts = Leak(leak.stage, leak.readings, Public(np.repeat(x[:1], 11, axis=0), np.repeat(y[:1], 11)))
    false = Truth(np.concatenate([1 - x[:1], x[1:]]), y)  # all but the first are true: the public record completes it
    assert identified(firsts, false, (2, 12), np.random.default_rng(0)) == [False, False]


# Optimisers


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def bowl(x):
    """A quadratic of condition 300 in turned axes."""
    d = len(x)
    axes, _ = np.linalg.qr(np.random.default_rng(d).normal(size=(d, d)))
    along = axes.T.astype(np.float32) @ (x - 0.3)
    return (np.geomspace(1, 300, d).astype(np.float32) * along**2).sum()


@partial(jax.jit, static_argnums=0)
def descended(objective, start, stop):
    optimizer = Lbfgs(inner=50, history_size=4)
    begun = optimizer.begin(objective, start, 8)
    return jax.lax.fori_loop(0, 8, lambda _, moved: optimizer.advance(objective, moved, 8, stop), begun)


@pytest.mark.parametrize(("objective", "d"), [(rosenbrock, 2), (rosenbrock, 10), (bowl, 6)])
def test_lbfgs_finds_the_minimum_that_scipy_finds(objective, d):
    start = np.linspace(-0.5, 0.5, d)
    moved = descended(objective, start.astype(np.float32), 0.0)
    theirs = optimize.minimize(objective, start, method="L-BFGS-B", options={"maxcor": 4})
    np.testing.assert_allclose(moved.z, theirs.x, atol=1e-3)
    assert float(moved.loss) < 1e-8
    assert int(moved.evaluations) < 5 * theirs.nfev / (d + 1)  # scipy takes d + 1 evaluations for one gradient


def test_lbfgs_stops_once_the_loss_is_small_enough():
    moved = descended(bowl, np.linspace(-0.5, 0.5, 6, dtype=np.float32), 0.5)
    assert 0.005 < float(moved.loss) <= 0.5


def test_signed_adam_is_adam_on_signs_with_a_rate_that_falls_three_times():
    optimizer, n, rate, centre = SignedAdam(0.1), 32, 0.1, np.array([0.31, -2.0])

    def objective(z):
        return jnp.sum(jnp.square(z - jnp.asarray(centre, jnp.float32)))

    @jax.jit
    def run(z):
        def one(moved, _):
            moved = optimizer.advance(objective, moved, n, 0.0)
            return moved, moved.z

        return jax.lax.scan(one, optimizer.begin(objective, z, n), None, length=n)[1]

    z, first, second, expected = np.zeros(2), np.zeros(2), np.zeros(2), []
    for i in range(n):
        sign = np.sign(z - centre)
        first, second = 0.9 * first + 0.1 * sign, 0.999 * second + 0.001 * sign**2
        move = (first / (1 - 0.9 ** (i + 1))) / (np.sqrt(second / (1 - 0.999 ** (i + 1))) + 1e-8)
        z = z - rate * 0.1 ** sum(i >= n * part / 8 for part in (3, 5, 7)) * move
        expected.append(z)
    np.testing.assert_allclose(run(jnp.zeros(2)), expected, atol=1e-4)
