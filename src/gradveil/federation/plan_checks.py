"""What a plan refuses because its parts do not go together: one sentence each, with the key and the rule."""

import math
from collections.abc import Sequence

from gradveil.data import unequal
from gradveil.data.sampling import Sampling, Whole
from gradveil.errors import BadInput, quoted
from gradveil.federation.secure_sum import SecureSum
from gradveil.models.preparation import Preparation
from gradveil.privacy.clip import Flat
from gradveil.privacy.draw import Draw
from gradveil.privacy.method import Method
from gradveil.privacy.prune import Keep
from gradveil.privacy.sensitivity import ClipBound
from gradveil.surface import Surface


def check_share(method: Method, local_steps: int, sampling: Sampling) -> None:
    """Refuse to share the noise of examples where it would not add up: over several steps, or random batches."""
    if not method.share or method.surface is not Surface.EXAMPLE:
        return
    if local_steps > 1 or not sampling.fixed_size:
        raise BadInput(
            "share = true: the noise of examples adds up over clients only in one local step of batches of a fixed "
            f"size, not in local_steps = {local_steps} of {sampling.name} batches"
        )


def check_preparation(
    stages: Sequence[Preparation], rounds: int, method: Method, local_steps: int, sampling: Sampling
) -> None:
    """Refuse preparation rounds that leave no round or no budget to train, or that would not be noised sums."""
    if not stages:
        return
    if rounds <= len(stages):
        raise BadInput(f"rounds = {rounds}: must be above the {len(stages)} that prepare the model")
    if math.fsum(stage.share**2 for stage in stages) >= 1:
        raise BadInput(
            f"share = {', '.join(f'{s.share:g}' for s in stages)}: the squares of what preparation may spend must "
            "add up to less than 1"
        )
    if method.surface is not Surface.EXAMPLE or local_steps > 1 or not isinstance(sampling, Whole):
        raise BadInput(
            "model: its preparation needs a method that noises examples, one local step and whole batches; "
            f"not {method.name}, {local_steps} and {sampling.name}"
        )


def check_secure_sum(sums: SecureSum, method: Method, local_steps: int, clients: int, everyone: bool) -> None:
    """Refuse what is no sum of vectors of a fixed bound over all records of all clients.

    everyone: whether all clients, of one size, take part in every round with all their records.
    """
    parts = isinstance(method.clip, Flat) and isinstance(method.sensitivity, ClipBound) and not method.share
    if not (parts and isinstance(method.prune, Keep) and method.draw is Draw.SUM and not method.noise.silent):
        raise BadInput(f"secure_sum: needs noise on sums under one constant bound, as in fed-sum; not {method.name}")
    if method.surface is not Surface.EXAMPLE or local_steps > 1 or not everyone:
        raise BadInput("secure_sum: needs one local step over all records of all clients, of one size, as in fed-sum")
    if clients < sums.nodes:
        raise BadInput(f"clients = {clients}: must be at least the nodes of secure_sum, {sums.nodes}")


def check_names(names: tuple[str, ...], clients: int, sizes: tuple[int, ...] | None) -> None:
    """Refuse names that are not one for each client, or that come without the clients' sizes."""
    if sizes is None or len(names) != clients or len(set(names)) < len(names):
        raise BadInput(
            f"client_names = {quoted(names)}: one for each of the {clients} clients is expected, each once, beside "
            "client_sizes"
        )


def check_weights(weights: tuple[float, ...], clients: int, method: Method) -> None:
    """Refuse weights that would change how far a unit moves a noised sum."""
    unequal.check_weights(weights, clients)
    if method.acts(Surface.UPDATE) or method.acts(Surface.SERVER) or method.share:
        raise BadInput(f"client_weights: {method.name} needs equally weighted clients")


def check_trials(trials: int, method: Method, local_steps: int, everyone: bool) -> None:
    """Refuse to count trials beside releases of another kind: theirs were noised sums over whole clients.

    everyone: whether all clients take part in every round with all their records.
    """
    if method.surface is not Surface.EXAMPLE or local_steps > 1 or not everyone:
        raise BadInput(
            f"tuned.trials = {trials}: trials on the same records are counted only where all clients "
            f"send one noised sum over their whole data a round, as in fed-sum; not for {method.name}"
        )
