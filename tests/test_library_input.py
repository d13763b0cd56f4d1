"""Input of the library: short names, words for enums, scalars of NumPy; wrong kinds are BadInput."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import gradveil
from gradveil import methods
from gradveil.data.sampling import CohortSampling, Poisson
from gradveil.federation.plan import NoiseSource
from gradveil.models.networks import Mlp
from gradveil.privacy.clip import Flat, PerLayer
from gradveil.privacy.draw import Draw
from gradveil.privacy.schedule import Constant, Linear
from gradveil.privacy.sensitivity import Fixed

TINY = {"clients": 4, "cohort": 2, "client_size": 20, "batch": 2, "local_steps": 1, "rounds": 1}


def made(**changes):
    return gradveil.plan("synthetic", "fed-cdp", **TINY | changes)


def test_words_and_scalars_become_what_the_plan_declares():
    plan = made(
        noise_source="secret", cohort_sampling="poisson", seed=np.int64(3), learning_rate=1, delta=np.float32(2**-7)
    )
    assert plan.noise_source is NoiseSource.SECRET
    assert plan.cohort_sampling is CohortSampling.POISSON
    assert (type(plan.seed), type(plan.learning_rate), type(plan.delta)) == (int, float, float)
    assert replace(plan, noise_source="seeded").noise_source is NoiseSource.SEEDED
    assert type(Flat(1).c) is float
    assert Mlp(hidden=[np.int32(4)]).hidden == (4,)
    assert gradveil.Method(name="m", surface="update").surface is gradveil.Surface.UPDATE


def test_the_short_names_of_the_command_line_are_understood():
    plan = made(lr=0.5, sigma=2, clip="flat:0.25", draw="mean", sampling="poisson", partition="iid")
    assert plan.learning_rate == 0.5
    assert plan.method.noise == Constant(2.0)
    assert plan.method.clip == Flat(0.25)
    assert plan.method.draw is Draw.MEAN
    assert plan.sampling == Poisson()
    assert made(clip=3).method.clip == PerLayer(3.0) or made(clip=3).method.clip == Flat(3.0)
    decaying = made(sigma=8, decay="linear", sigma_end=2.0, sensitivity="l2-max").method
    assert decaying.noise == Linear(start=8.0, end=2.0)


def test_an_unknown_setting_is_refused_with_the_names_that_are_known():
    with pytest.raises(gradveil.BadInput, match=r"lern: unknown setting of a plan; known are .*learning_rate.*sigma"):
        made(lern=0.1)
    with pytest.raises(gradveil.BadInput, match="lr, learning_rate: are one setting"):
        made(lr=0.1, learning_rate=0.1)


WRONG = {
    "seed": 1.5, "model": None, "threat_model": "x", "clients": "4", "rounds": True, "learning_rate": "fast",
    "train_all": 1, "noise_source": 3, "sampling": Poisson, "partition": object(), "delta": None, "accountant": [],
    "max_epsilon": np.array([1.0, 2.0]), "cohort": 10**30, "sigma": "much", "clip": {}, "draw": 7, "decay": 1.0,
    "sensitivity": 0, "target": b"label", "client_sizes": np.array(2.5),
}  # fmt: skip


@pytest.mark.parametrize("key", WRONG)
def test_a_setting_of_a_wrong_kind_is_refused_by_its_key(key):
    with pytest.raises(gradveil.BadInput, match=key):
        made(**{key: WRONG[key]})


@pytest.mark.parametrize("field", [field.name for field in fields(gradveil.Plan)])
def test_no_field_of_a_plan_takes_a_value_of_no_use(field):
    with pytest.raises(gradveil.BadInput, match=field):
        replace(made(), **{field: object()})


def test_no_part_takes_a_word_for_a_number():
    for part, key in ((Flat, "c"), (PerLayer, "c"), (Constant, "sigma")):
        with pytest.raises(gradveil.BadInput, match=f"{key} = 'x': a number is expected"):
            part("x")
    with pytest.raises(gradveil.BadInput, match=r"clip = 3.0: must be a value of Unclipped"):
        gradveil.Method(name="m", clip=3.0)


@pytest.mark.parametrize("wrong", [None, 3, b"x", "", object(), "a\0b"])
def test_what_is_no_path_plan_or_dataset_is_refused(wrong):
    for attempt in (gradveil.dataset, gradveil.plan, gradveil.load, gradveil.train, gradveil.attack):
        with pytest.raises(gradveil.BadInput):
            attempt(wrong)


def test_a_folder_that_cannot_be_made_is_bad_input():
    with pytest.raises(gradveil.BadInput):
        gradveil.train(made(), "/dev/null/run")


@pytest.mark.parametrize(
    "wrong",
    [{"surface": 7}, {"surface": "x"}, {"attack": 3}, {"rule": []}, {"victims": 5}, {"victims": 1.5}, {"seed": -1},
     {"readings": 0}, {"view": "nowhere"}],
    ids=str,
)  # fmt: skip
def test_an_attack_of_a_wrong_kind_is_refused(wrong):
    with pytest.raises(gradveil.BadInput, match=next(iter(wrong))):
        gradveil.attack(made(), **wrong)


def test_a_method_of_ours_is_the_same_by_name_and_by_value_and_your_own_stays_as_it_is():
    for name, value in (("fed-cdp", methods.FED_CDP), ("fed-sdp", methods.FED_SDP)):
        named, handed = gradveil.plan("digits", name), gradveil.plan("digits", value)
        assert named == handed
        assert named.method.clip == Flat(1.0)
    mine = replace(methods.FED_CDP, name="mine")
    assert gradveil.plan("digits", mine).method == mine


def test_a_built_in_name_wins_over_a_folder_and_a_path_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    assert gradveil.plan("digits").dataset == "digits"
    for path in ("./digits", Path("digits")):
        with pytest.raises(gradveil.BadInput, match=str(tmp_path / "digits")):
            gradveil.plan(path)


def test_what_is_no_table_of_finite_numbers_is_not_predicted(tmp_path):
    model = gradveil.train(gradveil.plan("synthetic", "non-private", rounds=1), tmp_path / "run")
    good = gradveil.dataset("synthetic").test.x[:2]
    assert model.predict(good).shape == (2,)
    assert model.scores(good[:0]).shape == (0, 4)
    assert model.predict(np.zeros((1, 20), int)).shape == (1,)
    ragged = [[0.0] * 20, [0.0] * 19]
    broken = [np.where(np.arange(20) == 3, wrong, good.astype(float)) for wrong in (np.nan, np.inf, -np.inf, 1e300)]
    for wrong in (ragged, [["a"] * 20], None, "text", {}, object(), [[None] * 20], [[1j] * 20], *broken):
        for asked in (model.predict, model.scores):
            with pytest.raises(gradveil.BadInput, match=r"^x"):
                asked(wrong)


def test_more_clients_than_can_be_told_apart_in_memory_are_refused_before_anything_is_made():
    for clients in (10**7 + 1, 10**9):
        with pytest.raises(gradveil.BadInput, match=f"clients = {clients}: must be at most 10000000"):
            gradveil.plan("synthetic", clients=clients, client_size=1, batch=1)
    assert gradveil.plan("synthetic", clients=10**7, client_size=1, batch=1).clients == 10**7


def test_a_part_may_stand_for_its_short_name():
    changed = made(clip=PerLayer(0.5), sensitivity=Fixed(2.0), decay=Linear(start=8.0, end=2.0)).method
    assert (changed.clip, changed.sensitivity) == (PerLayer(0.5), Fixed(2.0))
    assert changed.noise == Linear(start=8.0, end=2.0)
    with pytest.raises(gradveil.BadInput, match=r"clip = <class .*PerLayer'>: must be a value of"):
        made(clip=PerLayer)


def test_a_frame_or_an_array_is_no_name_of_a_dataset():
    for given in (np.zeros((3, 2)), {"age": [1]}):
        with pytest.raises(
            gradveil.BadInput, match=r"= (ndarray|dict): must be a name or a path; gradveil\.Dataset\.of makes data of"
        ):
            gradveil.plan(given)


def test_a_plan_shows_itself_in_a_line_and_in_notebooks():
    plan = made(sigma=2.0)
    assert len(repr(plan)) < 200
    assert repr(plan).startswith("Plan(fed-cdp on synthetic: 1 round, 2 of 4 clients, ")
    assert "Constant(sigma=2.0)" in repr(plan)
    assert "<td>local_steps</td><td>1</td>" in plan._repr_html_()
