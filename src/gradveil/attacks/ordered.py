"""Labels of several local steps, by replaying the steps with public examples."""

from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from gradveil.attacks.class_mix import likelihood, reading_of
from gradveil.attacks.labels import Labels, MatchedFilter
from gradveil.attacks.leak import Host, Leak, Reading, Stage, last_layer
from gradveil.attacks.public_stats import class_means
from gradveil.errors import BadInput
from gradveil.tree import Array, Tree


@dataclass(frozen=True, slots=True)
class Ordered:
    """Start from another rule's labels and change one after the other to explain the reading best.

    A guess of labels y_1 .. y_n is judged by the mechanism itself: the public mean of each class stands in for its
    examples, and replay(mean_y1 .. mean_yn) is compared with the reading. Each position in turn takes the likeliest
    class; then each two positions of different steps trade their labels if that explains more, since a change of one
    label cannot mend the order of two; all this `sweeps` times over. Typical gradients at the first parameters mislead
    once the steps have moved them; the replay follows them. Where there is one step, or too many to replay, the first
    rule stands.

    last: judge by the gradient of the last layer alone. It tells classes apart, while the coordinates before it differ
    as much between examples of one class; under heavy noise every coordinate counts.
    """

    first: Labels = field(default_factory=MatchedFilter)
    sweeps: int = 2
    last: bool = False

    def __post_init__(self) -> None:
        if self.sweeps < 1:
            raise BadInput(f"sweeps = {self.sweeps}: must be at least 1")

    def __call__(self, leak: Leak, n: int) -> Host | None:
        """Improve the first rule's labels; n guesses that are not one an example cannot be replayed."""
        first_labels = self.first(leak, n)
        if first_labels is None or leak.stage.steps == 1 or n != leak.stage.examples:
            return first_labels
        means = jnp.asarray(class_means(leak), jnp.float32)
        improved = _improve(leak.stage, self, reading_of(leak), means, jnp.asarray(first_labels, jnp.int32))
        labels: Host = np.asarray(improved)
        return labels


@partial(jax.jit, static_argnums=(0, 1))
def _improve(stage: Stage, rule: Ordered, reading: Reading, means: Array, labels: Array) -> Array:
    def judged(gradient: Tree) -> Tree:
        return [leaf for leaf in last_layer(stage, gradient) if leaf is not None] if rule.last else gradient

    std = judged(jax.tree.map(lambda s, y: jnp.broadcast_to(s, y.shape), reading.std, reading.gradient))

    def fit(guess: Array) -> Array:
        replayed = stage.replay(reading.params, reading.clip_state, means[guess], guess)
        return likelihood(judged(reading.gradient), judged(replayed), std)

    def visit(guess: Array, position: Array) -> tuple[Array, None]:
        trials = jax.vmap(lambda c: guess.at[position].set(c))(jnp.arange(stage.classes, dtype=guess.dtype))
        return trials[jnp.argmax(jax.lax.map(fit, trials))], None

    def trade(guess: Array, pair: Array) -> tuple[Array, None]:
        traded = guess.at[pair].set(guess[pair[::-1]])
        better = (guess[pair[0]] != guess[pair[1]]) & (fit(traded) > fit(guess))
        return jnp.where(better, traded, guess), None

    n = labels.shape[0]
    pairs = [(i, j) for i in range(n) for j in range(i) if i // stage.batch != j // stage.batch]

    def sweep(guess: Array, _: None) -> tuple[Array, None]:
        guess, _ = jax.lax.scan(visit, guess, jnp.arange(n))
        return jax.lax.scan(trade, guess, jnp.array(pairs))[0], None

    return jax.lax.scan(sweep, labels, None, length=rule.sweeps)[0]
