"""A clip and an attack of one's own: both are values with a few methods, and gradveil checks what the clip claims.

`SoftClip` scales every unit by 1 / (1 + norm / C), so that no norm reaches C. `Means` guesses the public mean for every
record, which is what an attack has to be better than.
"""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import gradveil
from gradveil.methods import FED_CDP
from gradveil.parts import ConstantClip, Leak, Reconstruction, joint_norms


@dataclass(frozen=True)
class SoftClip(ConstantClip):
    """g / (1 + ||g|| / C): a unit of any size stays below C, and directions are kept."""

    c: float

    def scales(self, norms: jax.Array, state: object) -> jax.Array:
        """Return 1 / (1 + ||g|| / C) in every layer."""
        return jnp.broadcast_to(1 / (1 + joint_norms(norms) / self.c), norms.shape)

    def bound(self, state: object) -> jax.Array:
        """Return C."""
        return jnp.asarray(self.c)


@dataclass(frozen=True)
class Means:
    """Guess the mean of the public examples, whatever the gradient says."""

    name: str = "means"
    restarts: int = 1

    def refuse(self, leak: Leak) -> None:
        """Take any leak."""

    def prepared(self, leak: Leak, key: jax.Array) -> "Means":
        """Learn nothing beforehand."""
        return self

    def __call__(self, leak: Leak, key: jax.Array) -> Reconstruction:
        """Return the mean once for every example of the batch."""
        mean = leak.public.x.mean(axis=0)
        guess = np.broadcast_to(mean, (1, leak.stage.examples, *mean.shape)).astype(np.float32)
        return Reconstruction(guess, None, np.zeros(1), np.ones(1, int), np.ones(1, int))


def main() -> tuple[float, str]:
    """Train with the clip, then attack the run; returns the accuracy and the verdict on the attack."""
    method = replace(FED_CDP, name="Fed-CDP, soft clip", clip=SoftClip(1.0))
    plan = gradveil.plan("digits", method, rounds=40, seed=1)
    with tempfile.TemporaryDirectory() as place:
        model = gradveil.train(plan, Path(place) / "run", attack=False)
        print(model)
        print(next(caveat for caveat in model.guarantee().caveats if "trusted" in caveat))
        record = gradveil.attack(Path(place) / "run", 2, Means(), 4)
        print(f"attack {record.attack}: {record.verdict}")
        return model.result.accuracy or 0.0, record.verdict


if __name__ == "__main__":
    main()
