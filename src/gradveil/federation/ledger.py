"""The translation of plans for the accountants: what each round releases."""

import math
from dataclasses import replace

import jax

from gradveil.accounting.release import TRIAL, Release
from gradveil.accounting.selection import most_trials
from gradveil.data import unequal
from gradveil.data.sampling import Allocation, FixedPass
from gradveil.federation.plan import Plan
from gradveil.federation.secure_sum import SecureSum
from gradveil.models.gradients import trained
from gradveil.own_code import is_own
from gradveil.privacy.adaptive import Quantile
from gradveil.privacy.clip import Flat, OwnNorm, PerLayer, Unclipped
from gradveil.privacy.inspection import own_parts
from gradveil.privacy.method import Method
from gradveil.privacy.sensitivity import ClipBound, Fixed
from gradveil.privacy.slack import Slack
from gradveil.surface import Surface
from gradveil.tree import Tree


def layer_count(plan: Plan, shape: tuple[int, ...], classes: int) -> int:
    """Count the tensors M of the plan's model without drawing them."""
    return len(jax.tree.leaves(shape_of(plan, shape, classes)))


def shape_of(plan: Plan, shape: tuple[int, ...], classes: int) -> Tree:
    """Return the shapes of the parameters that gradients move, without drawing them."""
    return jax.eval_shape(lambda: trained(plan.model, plan.model.init(jax.random.key(0), shape, classes)))


def shape_read(plan: Plan, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape of an example as the model reads it; None where features are as long as their blocks make them.

    shape: of an example, before or after the plan's features.
    """
    if plan.features is None:
        return shape
    return None if plan.features.k is None else (plan.features.k,)


def numbers_noised(plan: Plan, shape: tuple[int, ...], classes: int) -> tuple[int, ...]:
    """Count the numbers that a client noises in each preparation round and then in a local step of every other.

    shape: of an example, before or after the plan's features. 0 where features of unknown length take its place.
    """
    stages, read = plan.preparation, shape_read(plan, shape)
    if read is None:
        return (0,) * (len(stages) + 1)
    leaves = jax.tree.leaves(shape_of(plan, read, classes))
    clip = plan.method.clip
    slots = clip.slots * (len(leaves) if clip.per_layer else 1) if isinstance(clip, Slack) else 0
    return (*(s.length(math.prod(read)) for s in stages), sum(math.prod(leaf.shape) for leaf in leaves) + slots)


def releases(
    plan: Plan, t: int, layers: int, copies: int, replies: int | None = None, numbers: tuple[int, ...] = (0,)
) -> tuple[Release, ...]:
    """Return what round t releases: the noised sums, and the noised count of a quantile clip.

    replies: the least number of clients that reply, where clients can fail to; the whole cohort by default.
    numbers: as `numbers_noised` counts them; (0,) where that is not known.
    """
    cohort, method, stage = plan.cohort if replies is None else replies, plan.method_at(t), plan.stage(t)
    example = method.surface is Surface.EXAMPLE
    sigmas = plan.sigmas()[t]
    main = Release(
        round=t,
        surface=int(method.surface),
        unit="example" if example else "client",
        part="sum",
        sigmas=tuple(map(float, sigmas if example else sigmas[:1])),
        ratio=_ratio(method),
        layers=1 if method.clip.joint else layers,
        draw=method.draw.value,
        expected=float(_expected(plan, cohort)),
        capacity=plan.sampling.capacities(plan.client_size, plan.batch)[-1] if example else _expected(plan, cohort),
        client_size=plan.client_size,
        share=method.share,
        example_sampling=plan.sampling.name,
        example_rate=plan.batch / plan.client_size,
        touches=touches(plan),
        cohort_sampling=plan.cohort_sampling.value,
        cohort_rate=plan.cohort / plan.clients,
        cohort=cohort,
        copies=copies,
        data_dependent=method.sensitivity.data_dependent or not method.clip.sound,
        unsound_clip=not method.clip.sound,
        trusted=(*own_parts(method), *_own_sampling(plan)),
        honest=_honest(plan, cohort),
        # AdaClip learns from the square of every client's update, which their sum does not show; of others who knows.
        # Weights of their own leave the noise of clients on their sum in other parts than is accounted there.
        sum_only=isinstance(plan.method.clip, Unclipped | PerLayer | Flat | OwnNorm | Quantile | Slack)
        and plan.client_weights is None,
        stage="gradient" if stage is None else stage.name,
        numbers=numbers[min(t, len(numbers) - 1)],
    )
    if plan.secure_sum is not None:
        return (_secure(plan.secure_sum, main),)
    return (main, *_count(method, main))


def _secure(sums: SecureSum, main: Release) -> Release:
    """Return a release whose noise nodes draw in parts, with all nodes in the sum: then a part alone is smallest."""
    return replace(main, share=True, cohort=sums.nodes, honest=sums.honest, masked=True)


def _own_sampling(plan: Plan) -> tuple[str, ...]:
    """Return the name of a sampling that is the user's own: that it draws no record twice is taken as true."""
    return (type(plan.sampling).__qualname__,) if is_own(plan.sampling) else ()


def of_client(plan: Plan, released: tuple[Release, ...], size_and_rate: tuple[int, float]) -> tuple[Release, ...]:
    """Return releases as those of a client that holds so many examples and draws them at this rate."""
    size, rate = size_and_rate
    if plan.method.surface is not Surface.EXAMPLE:
        return released
    own = {
        "client_size": size,
        "capacity": unequal.most_of(size, rate),
        "expected": rate * size,
        "example_rate": rate,
    }
    return tuple(replace(release, **own) for release in released)  # type: ignore[arg-type]


MOST_KINDS = 16
"""Kinds of clients that are accounted one by one for the guarantee of a run."""


def worst_kinds(plan: Plan) -> tuple[tuple[int, float], ...]:
    """Return (examples, rate) of the clients of which one is the worst, by descending rate.

    An epsilon grows with both, so a client beside one that has no less of either is left out. Of more than MOST_KINDS,
    neighbors are taken together as one that has the most examples and the highest rate among them, which is no better.
    """
    front: list[tuple[int, float]] = []
    for size, rate in sorted(set(zip(plan.sizes, plan.rates, strict=True)), key=lambda kind: (-kind[1], -kind[0])):
        if not front or size > front[-1][0]:
            front.append((size, rate))
    groups = [front[i * len(front) // MOST_KINDS : (i + 1) * len(front) // MOST_KINDS] for i in range(MOST_KINDS)]
    if len(front) <= MOST_KINDS:
        return tuple(front)
    return tuple((max(size for size, _ in group), max(rate for _, rate in group)) for group in groups)


def releases_of_trials(plan: Plan, layers: int, copies: int) -> tuple[Release, ...]:
    """Return what the trials released that chose the plan's settings: a sum each, as many as there may be."""
    tuned = plan.tuned
    if tuned is None or tuned.sigma is None or tuned.clients is None or tuned.honest is None:
        return ()
    like, *_ = releases(plan, len(plan.preparation), layers, copies)
    one = replace(
        like,
        round=-1,
        sigmas=(tuned.sigma,),
        ratio=1.0,
        layers=1,
        draw="sum",
        share=False,
        masked=False,
        cohort=tuned.clients,
        honest=tuned.honest,
        sum_only=True,
        stage=TRIAL,
    )
    return (one,) * (most_trials(tuned.trials) if tuned.hidden else tuned.trials)


def _honest(plan: Plan, cohort: int) -> int:
    """Return H: for shared noise that of the plan, which its parts are made for; else of those that reply."""
    return plan.honest if plan.method.share else math.ceil((plan.method.honest or 1.0) * cohort - 1e-9)


def _count(method: Method, main: Release) -> tuple[Release, ...]:
    """Return the release of a quantile clip's count: a unit moves it by 1/2, so z is twice its noise."""
    clip = method.clip
    if not isinstance(clip, Quantile):
        return ()
    units = main.cohort * main.expected if main.unit == "example" else main.cohort
    noise = clip.count_noise * units
    changes = {"part": "count", "sigmas": (2 * noise,), "ratio": 1.0, "layers": 1, "draw": "sum", "share": False}
    fields = {name: getattr(main, name) for name in Release.__dataclass_fields__}
    return (Release(**(fields | changes | {"touches": 1, "surface": int(Surface.SERVER), "data_dependent": False})),)


def _ratio(method: Method) -> float:
    """Return C / S where S is public; 0 stands for a private S, whose releases carry `data_dependent`."""
    sensitivity, clip = method.sensitivity, method.clip
    if isinstance(sensitivity, ClipBound):
        return 1.0
    bound = next((getattr(clip, name) for name in ("c", "radius", "high") if hasattr(clip, name)), math.inf)
    if isinstance(sensitivity, Fixed) and sensitivity.value > 0:
        return float(bound) / sensitivity.value
    return math.inf if isinstance(sensitivity, Fixed) else 0.0


def _expected(plan: Plan, cohort: int) -> int:
    return {Surface.EXAMPLE: plan.batch, Surface.UPDATE: 1, Surface.SERVER: cohort}[plan.method.surface]


def touches(plan: Plan) -> int:
    """Count the batches of one participation that can hold a given record."""
    if isinstance(plan.sampling, FixedPass):
        return math.ceil(plan.local_steps * plan.batch / plan.client_size)
    if isinstance(plan.sampling, Allocation):
        return math.ceil(plan.local_steps / plan.sampling.period(plan.client_size, plan.batch))
    return plan.local_steps
