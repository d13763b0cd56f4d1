"""Models of other libraries: the same numbers as the library gives, and a refusal of state by the layer's name."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradveil
from gradveil import own_code
from gradveil.models.adapters import FunctionModel, adapted
from gradveil.models.gradients import loss, per_example_gradients
from gradveil.models.networks import Cnn
from gradveil.models.stateful import refuse_flax_state

KEY, SHAPE, CLASSES = jax.random.key(3), (4, 4, 1), 3
X = np.asarray(jax.random.uniform(jax.random.key(1), (5, *SHAPE)))


def draw(key, shape, classes):
    return {"w": jax.random.normal(key, (int(np.prod(shape)), classes))}


def compute(params, x):
    return x.reshape(-1) @ params["w"]


def test_a_pair_of_functions_is_used_as_it_is():
    model = gradveil.model((draw, compute))
    params = model.init(KEY, SHAPE, CLASSES)
    np.testing.assert_allclose(model.apply(params, X[0]), X[0].ravel() @ np.asarray(params["w"]), rtol=1e-5)
    assert model == FunctionModel(draw, compute)
    assert hash(model) == hash(gradveil.model((draw, compute)))


def test_what_is_a_model_already_stays_as_it_is():
    assert adapted(Cnn()) == Cnn()
    for wrong in (None, 3, "Cnn", Cnn, (draw,), object()):
        with pytest.raises(gradveil.BadInput, match="model = "):
            gradveil.model(wrong)


def test_one_number_for_two_classes_is_a_logit():
    model = gradveil.model((lambda key, shape, classes: jnp.ones(2), lambda w, x: jnp.sum(x) * w[:1]))
    params = model.init(KEY, SHAPE, 2)
    z = float(X[0].sum())
    expected = np.log1p(np.exp(-z))  # the binary cross-entropy of class 1
    np.testing.assert_allclose(loss(model, params, jnp.asarray(X[0]), 1), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(loss(model, params, jnp.asarray(X[0]), 0), expected + z, rtol=1e-4)


@pytest.mark.parametrize(
    ("model", "classes", "said"),
    [
        ((draw, lambda params, x: x), 3, "one logit for each of the 3 classes"),
        ((draw, lambda params, x: params["v"]), 3, "cannot be used (KeyError"),
        ((lambda key: key, compute), 3, "cannot be used (TypeError"),
        ((draw, lambda params, x: "text"), 3, "cannot be used (TypeError"),
    ],
)
def test_a_model_that_does_not_fit_the_data_is_one_sentence(model, classes, said):
    with pytest.raises(gradveil.BadInput) as caught:
        gradveil.model(model).init(KEY, SHAPE, classes)
    assert said in str(caught.value)


def test_libraries_are_known_by_their_modules():
    base = type("Module", (), {"__module__": "flax.linen.module"})
    mine = type("Mine", (base,), {"__module__": "mine"})
    assert own_code.library_of(mine()) == own_code.library_of(mine) == "flax"
    assert own_code.library_of(SimpleNamespace()) == ""


def test_flax_gives_what_flax_gives():
    nn = pytest.importorskip("flax.linen")

    class Small(nn.Module):
        width: int = 6

        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(self.width, (3, 3))(x))
            x = nn.GroupNorm(num_groups=2)(x)
            return nn.Dense(CLASSES)(x.reshape((x.shape[0], -1)))

    model = gradveil.model(Small())
    params = model.init(KEY, SHAPE, CLASSES)
    batch = Small().apply({"params": params}, X)
    np.testing.assert_allclose(np.stack([model.apply(params, x) for x in X]), batch, rtol=1e-4, atol=1e-5)
    assert model == gradveil.model(Small())
    assert model != gradveil.model(Small(8))
    gradients = per_example_gradients(model, params, X, np.zeros(5, np.int32))
    assert {leaf.shape[0] for leaf in jax.tree.leaves(gradients)} == {5}


def test_a_class_of_flax_that_takes_arguments_is_refused():
    nn = pytest.importorskip("flax.linen")

    class Wide(nn.Module):
        width: int

    with pytest.raises(gradveil.BadInput, match="model = Wide: give an instance, since it takes arguments"):
        gradveil.model(Wide)


def test_flax_with_batch_norm_is_refused_by_the_layer():
    nn = pytest.importorskip("flax.linen")

    class Normed(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(CLASSES)(nn.BatchNorm(use_running_average=True)(x.reshape((x.shape[0], -1))))

    assert gradveil.model(Normed) == gradveil.model(Normed())
    with pytest.raises(gradveil.BadInput, match=r"layer 'BatchNorm_0' keeps state \(batch_stats\).*group norm"):
        gradveil.model(Normed()).init(KEY, SHAPE, CLASSES)


def test_state_beside_the_parameters_is_refused_by_the_place_of_its_layer():
    refuse_flax_state({"params": {"Dense_0": {"kernel": 1}}})
    state = {"params": {}, "batch_stats": {"Block_0": {"BatchNorm_1": {"mean": 0, "var": 1}}}}
    with pytest.raises(gradveil.BadInput, match=r"layer 'Block_0.BatchNorm_1' keeps state \(batch_stats\)"):
        refuse_flax_state(state)


def test_equinox_gives_what_equinox_gives_as_an_object_and_as_a_class():
    eqx = pytest.importorskip("equinox")

    class Small(eqx.Module):
        layer: eqx.nn.Linear

        def __init__(self, key):
            self.layer = eqx.nn.Linear(16, CLASSES, key=key)

        def __call__(self, x):
            return self.layer(x.reshape(-1))

    module = Small(KEY)
    expected = np.stack([module(x) for x in jnp.asarray(X)])
    for given in (module, Small):
        model = gradveil.model(given)
        params = model.init(KEY, SHAPE, CLASSES)
        np.testing.assert_allclose(np.stack([model.apply(params, x) for x in X]), expected, rtol=1e-5)
    other = gradveil.model(Small).init(jax.random.key(4), SHAPE, CLASSES)
    assert not np.array_equal(other[0], params[0])
    assert gradveil.model(module) == gradveil.model(module)
    assert gradveil.model(module) != gradveil.model(Small(KEY))


def test_equinox_with_batch_norm_is_refused_by_the_layer():
    eqx = pytest.importorskip("equinox")
    with pytest.raises(gradveil.BadInput, match=r"layer 'layers\[1\]' keeps state"):
        gradveil.model(eqx.nn.Sequential([eqx.nn.Lambda(jnp.ravel), eqx.nn.BatchNorm(16, "batch", mode="batch")]))


def test_torch_gives_what_torch_gives_with_the_channels_first():
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch2jax")

    class Small(torch.nn.Sequential):
        def __init__(self):
            layers = torch.nn
            super().__init__(
                layers.Conv2d(1, 4, 3),
                layers.ReLU(),
                layers.GroupNorm(2, 4),
                layers.Flatten(),
                layers.Linear(16, CLASSES),
            )

    module = Small()
    with torch.no_grad():
        expected = module(torch.tensor(np.moveaxis(X, -1, 1).copy())).numpy()
    model = gradveil.model(module)
    params = model.init(KEY, SHAPE, CLASSES)
    np.testing.assert_allclose(np.stack([model.apply(params, x) for x in X]), expected, rtol=1e-4, atol=1e-5)
    made, again = (gradveil.model(Small).init(KEY, SHAPE, CLASSES) for _ in range(2))
    assert all(np.array_equal(made[name], again[name]) for name in made)
    assert not np.array_equal(made["0.weight"], params["0.weight"])
    gradients = per_example_gradients(model, params, jnp.asarray(X), np.zeros(5, np.int32))
    assert gradients["0.weight"].shape == (5, 4, 1, 3, 3)


def test_torch_with_batch_norm_is_refused_by_the_layer():
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch2jax")
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, CLASSES))
    with pytest.raises(gradveil.BadInput, match="layer '1' keeps state"):
        gradveil.model(module)
