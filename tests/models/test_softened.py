"""A network with smooth maxima: what it computes, and that it becomes the network itself."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradveil.models.gradients import per_example_gradients, trained
from gradveil.models.networks import AttackNet, Cnn, Mlp
from gradveil.models.softened import Softened

IMAGE = (10, 10, 1)
NETWORKS = [Cnn(3, 4), Mlp((8, 5)), AttackNet()]


@dataclass(frozen=True)
class Largest:
    """The larger of two numbers, and the largest of three others."""

    def apply(self, params, x):
        return jnp.stack([jnp.maximum(x[0], x[1]), jnp.max(x[2:])]) * params[0]


def drawn(model):
    return model.init(jax.random.key(0), IMAGE, 3), jax.random.uniform(jax.random.key(1), IMAGE)


def test_maxima_are_replaced_by_their_formulas():
    x, s = np.array([0.3, -0.4, 1.0, 2.0, -1.0]), 1.5
    soft = Softened(Largest()).apply((jnp.float32(s), jnp.float32(2.0)), jnp.asarray(x, jnp.float32))
    shares = np.exp(s * x[2:]) / np.exp(s * x[2:]).sum()
    wanted = [x[1] + np.log1p(np.exp(s * (x[0] - x[1]))) / s, float(shares @ x[2:])]
    np.testing.assert_allclose(soft, 2 * np.array(wanted), rtol=1e-6)


@pytest.mark.parametrize("model", NETWORKS, ids=lambda model: type(model).__name__)
def test_a_sharp_network_is_the_network_itself(model):
    params, x = drawn(model)
    np.testing.assert_allclose(
        Softened(model).apply((jnp.float32(1e7), *params), x), model.apply(params, x), rtol=1e-4, atol=1e-5
    )


def test_a_soft_network_is_another_one_unless_it_has_no_maxima():
    for model, same in ((Cnn(3, 4), False), (Mlp((8, 5)), False), (AttackNet(), True)):
        params, x = drawn(model)
        soft = Softened(model).apply((jnp.float32(5.0), *params), x)
        assert np.allclose(soft, model.apply(params, x), atol=1e-4) is same


def test_its_gradient_has_no_jump_where_a_unit_turns_on():
    """At a ReLU's edge what flows back through the true network jumps; through the soft one it hardly moves."""
    model = Mlp((1,))
    params = (jnp.ones((1, 1)), jnp.array([[1.0, -1.0]]))
    sides = jnp.array([[-1e-4], [1e-4]])

    def jump(network, given):
        below, above = (jax.grad(lambda x: network.apply(given, x)[0])(side) for side in sides)
        return float(jnp.abs(above - below).max())

    assert jump(model, params) == pytest.approx(1.0)
    assert jump(Softened(model), (jnp.float32(20.0), *params)) < 0.01


def test_the_sharpness_is_held_and_all_else_is_trained():
    model = Softened(Mlp((4,)))
    params = model.init(jax.random.key(0), (3,), 2)
    assert len(trained(model, params)) == len(params) - 1 == 2
    lot = per_example_gradients(model, params, jnp.ones((2, 3)), jnp.zeros(2, int))
    assert [leaf.shape for leaf in lot] == [(2, 3, 4), (2, 4, 2)]
