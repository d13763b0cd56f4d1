import jax
import jax.numpy as jnp
import pytest

from gradveil.engines import cache


def maps():
    return cache.MAPS.read_bytes().count(b"\n")


def compiled(numbers):
    """Compile a program a number, and keep the functions so that nothing but the cache can let go of them."""
    functions = [jax.jit(lambda x, n=n: jnp.sin(x @ x.T) * n) for n in numbers]
    for function in functions:
        function(jnp.ones((4, 4))).block_until_ready()
    return functions


@pytest.mark.skipif(not cache.MAPS.exists(), reason="only Linux counts memory maps")
def test_programs_are_let_go_when_they_are_too_many_and_work_again_afterwards():
    before = maps()
    kept = compiled(range(40))
    many = maps()
    assert many > before + 40
    assert not cache.drop_programs_if_many(most_maps=many + 1000)
    assert cache.drop_programs_if_many(most_maps=many - 1)
    assert maps() < many
    assert float(kept[2](jnp.ones((1, 1)))[0, 0]) == pytest.approx(2 * jnp.sin(1.0))


@pytest.mark.skipif(not cache.STATM.exists(), reason="only Linux tells the memory of a process here")
def test_programs_are_let_go_when_the_process_holds_more_memory_than_it_may():
    kept = compiled(range(3))
    held = cache.resident()
    assert 50 << 20 < held < 100 << 30  # JAX alone takes more than the one, no machine of ours has the other
    assert not cache.drop_programs_if_many(most_maps=10**6, most_bytes=2 * held)
    assert cache.drop_programs_if_many(most_maps=10**6, most_bytes=held // 2)
    assert float(kept[2](jnp.ones((1, 1)))[0, 0]) == pytest.approx(2 * jnp.sin(1.0))


@pytest.fixture
def unsettled():
    """JAX as a user has it who chose no folder for compiled programs; what tests chose is put back."""
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: jax.config.values[name] for name in names}
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_programs_are_kept_in_the_users_cache_folder_unless_the_user_chose_another(unsettled, monkeypatch, tmp_path):
    monkeypatch.setenv("GRADVEIL_CACHE", str(tmp_path / "cache"))
    cache.keep_compiled_programs()
    assert jax.config.values["jax_compilation_cache_dir"] == str(tmp_path / "cache" / "compiled")
    assert 0 < jax.config.values["jax_persistent_cache_min_compile_time_secs"] <= 1
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "mine"))
    cache.keep_compiled_programs()
    assert jax.config.values["jax_compilation_cache_dir"] == str(tmp_path / "mine")
