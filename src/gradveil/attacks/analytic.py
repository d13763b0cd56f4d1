"""The closed form: a dense first layer with a bias reveals its input, one division per value."""

from dataclasses import dataclass, field

import jax
import numpy as np

from gradveil.attacks.attack import Reconstruction
from gradveil.attacks.dense_input import dense_input
from gradveil.attacks.labels import Counts, Depending, Labels, Sign
from gradveil.attacks.leak import Leak, merged
from gradveil.errors import BadInput
from gradveil.tree import Array


@dataclass(frozen=True, slots=True)
class Analytic:
    """x = dW[:, i] / db[i] for the hidden unit i with the largest |db[i]| (Phong et al.).

    For one example dW = x d^T and db = d, so the quotient is exact at every unit that is not dead; for a batch it is a
    mix of examples, and each guess takes another unit.
    """

    name: str = "analytic"
    labels: Labels = field(default_factory=lambda: Depending(Sign(), Counts()))
    most: int = 64
    restarts: int = 1

    def refuse(self, leak: Leak) -> None:
        """Refuse a model whose first layer is not dense with a bias: no other reveals its input."""
        layer = dense_input(leak.stage, leak.readings[0].gradient)
        if layer is None or layer.bias is None:
            raise BadInput(
                f"attack = {self.name}: needs a model whose first layer is dense and has a bias, such as Mlp(bias=True)"
            )

    def prepared(self, leak: Leak, key: Array) -> "Analytic":
        """Return the attack itself: nothing is learned beforehand."""
        return self

    def __call__(self, leak: Leak, key: Array) -> Reconstruction:
        """Return the quotients as guesses."""
        n = min(leak.stage.examples, self.most)
        reading = merged(leak)
        weights, bias = jax.tree.leaves(reading.gradient)[:2]
        units = np.resize(np.argsort(-np.abs(bias), kind="stable"), n)
        divisors = np.where(bias[units] == 0, 1, bias[units])
        quotients = (weights[:, units] / divisors).T.reshape(1, n, *leak.stage.shape)
        one = np.ones(1, np.int32)
        return Reconstruction(quotients, self.labels(leak, n), np.zeros(1), one, one)
