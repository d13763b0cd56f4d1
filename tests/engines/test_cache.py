import jax
import jax.numpy as jnp
import pytest

from gradveil.engines import cache

pytestmark = pytest.mark.skipif(not cache.MAPS.exists(), reason="only Linux counts memory maps")


def maps():
    return cache.MAPS.read_bytes().count(b"\n")


def compiled(numbers):
    """Compile a program a number, and keep the functions so that nothing but the cache can let go of them."""
    functions = [jax.jit(lambda x, n=n: jnp.sin(x @ x.T) * n) for n in numbers]
    for function in functions:
        function(jnp.ones((4, 4))).block_until_ready()
    return functions


def test_programs_are_let_go_when_they_are_too_many_and_work_again_afterwards():
    before = maps()
    kept = compiled(range(40))
    many = maps()
    assert many > before + 40
    assert not cache.let_go_of_programs(most=many + 1000)
    assert cache.let_go_of_programs(most=many - 1)
    assert maps() < many
    assert float(kept[2](jnp.ones((1, 1)))[0, 0]) == pytest.approx(2 * jnp.sin(1.0))
