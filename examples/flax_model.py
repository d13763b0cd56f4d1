"""A model written in flax, trained on digits at a proved epsilon and loaded again from its run folder.

Needs flax (`pip install flax`). Layers with running statistics, such as BatchNorm, are refused: use GroupNorm.
"""

import tempfile
from pathlib import Path

import flax.linen as nn
import jax

import gradveil


class Small(nn.Module):
    """Convolution, group norm and a dense layer, for pictures of ten classes."""

    width: int = 8

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the logits [n, 10] of pictures [n, height, width, channels]."""
        x = nn.relu(nn.Conv(self.width, (3, 3), strides=2)(x))
        x = nn.GroupNorm(num_groups=2)(x)
        return nn.Dense(10)(x.reshape((x.shape[0], -1)))


def main() -> float:
    """Train, save, load and score; returns the accuracy on the test split."""
    digits = gradveil.dataset("digits")
    plan = gradveil.plan("digits", "fed-cdp", model=Small(), rounds=40, lr=0.7, seed=1)
    with tempfile.TemporaryDirectory() as place:
        gradveil.train(plan, Path(place) / "run")
        model = gradveil.load(Path(place) / "run")
        print(model)
        return model.evaluate(digits.test.x, digits.test.y).accuracy or 0.0


if __name__ == "__main__":
    main()
