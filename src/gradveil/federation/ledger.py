"""The translation of plans for the accountants: what each round releases."""

import math

import jax

from gradveil.accounting.release import Release
from gradveil.data.sampling import FixedPass
from gradveil.federation.plan import Plan
from gradveil.privacy.adaptive import Quantile
from gradveil.privacy.inspection import own_parts
from gradveil.privacy.sensitivity import ClipBound, Fixed
from gradveil.surface import Surface
from gradveil.tree import Tree


def layer_count(plan: Plan, shape: tuple[int, ...], classes: int) -> int:
    """Count the tensors M of the plan's model without drawing them."""
    return len(jax.tree.leaves(shape_of(plan, shape, classes)))


def shape_of(plan: Plan, shape: tuple[int, ...], classes: int) -> Tree:
    """Return the shapes of the plan's parameters without drawing them."""
    return jax.eval_shape(lambda: plan.model.init(jax.random.key(0), shape, classes))


def releases(plan: Plan, t: int, layers: int, copies: int, replies: int | None = None) -> tuple[Release, ...]:
    """Return what round t releases: the noised sums, and the noised count of a quantile clip.

    replies: the least number of clients that reply, where clients can fail to; the whole cohort by default.
    """
    cohort = plan.cohort if replies is None else replies
    example = plan.method.surface is Surface.EXAMPLE
    sigmas = plan.sigmas()[t]
    main = Release(
        round=t,
        surface=int(plan.method.surface),
        unit="example" if example else "client",
        part="sum",
        sigmas=tuple(map(float, sigmas if example else sigmas[:1])),
        ratio=_ratio(plan),
        layers=1 if plan.method.clip.joint else layers,
        draw=plan.method.draw.value,
        expected=float(_expected(plan, cohort)),
        capacity=plan.sampling.capacities(plan.client_size, plan.batch)[-1] if example else _expected(plan, cohort),
        client_size=plan.client_size,
        share=plan.method.share,
        example_sampling=plan.sampling.name,
        example_rate=plan.batch / plan.client_size,
        touches=touches(plan),
        cohort_sampling=plan.cohort_sampling.value,
        cohort_rate=plan.cohort / plan.clients,
        cohort=cohort,
        copies=copies,
        data_dependent=plan.method.sensitivity.data_dependent or not plan.method.clip.sound,
        unsound_clip=not plan.method.clip.sound,
        trusted=own_parts(plan.method),
    )
    return (main, *_count(plan, main))


def _count(plan: Plan, main: Release) -> tuple[Release, ...]:
    """Return the release of a quantile clip's count: a unit moves it by 1/2, so z is twice its noise."""
    clip = plan.method.clip
    if not isinstance(clip, Quantile):
        return ()
    units = main.cohort * plan.batch if main.unit == "example" else main.cohort
    noise = clip.count_noise * units
    changes = {"part": "count", "sigmas": (2 * noise,), "ratio": 1.0, "layers": 1, "draw": "sum", "share": False}
    fields = {name: getattr(main, name) for name in Release.__dataclass_fields__}
    return (Release(**(fields | changes | {"touches": 1, "surface": int(Surface.SERVER), "data_dependent": False})),)


def _ratio(plan: Plan) -> float:
    """Return C / S where S is public; 0 stands for a private S, whose releases carry `data_dependent`."""
    sensitivity, clip = plan.method.sensitivity, plan.method.clip
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
    return plan.local_steps
