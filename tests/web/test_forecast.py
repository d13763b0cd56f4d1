"""What the form says of a plan while it is typed: the accountant's epsilon, the preset's settings, a time."""

import pytest

from gradveil.accounting.accountant import account
from gradveil.accounting.tight import ADD_REMOVE
from gradveil.data.sources import load
from gradveil.errors import BadInput
from gradveil.federation.engine import Population
from gradveil.runs.budget import Budget
from gradveil.web import forecast
from gradveil.web.forecast import in_words
from gradveil.web.own_data import OwnData
from gradveil.web.run_form import FIELDS, OPTIONS, form_values, planned

NONE = OwnData()


def test_the_fields_show_the_preset_and_what_was_changed():
    told = forecast.epsilon({"rounds": "20"}, NONE)["settings"]
    assert (told["rounds"], told["clients"], told["batch"], told["sigma"], told["clip"]) == ("20", "10", "67", "7", "1")
    assert (told["decay"], told["sampling"], told["noise-source"]) == ("constant", "poisson", "seeded")
    assert forecast.epsilon({"method": "non-private"}, NONE)["settings"]["sigma"] == ""


@pytest.mark.parametrize("form", [{}, {"dataset": "synthetic", "method": "fed-sdp-client", "rounds": "3"}])
def test_what_the_fields_show_is_the_plan_that_they_came_from(form):
    plan, _ = planned(form, NONE)
    again, _ = planned({"dataset": plan.dataset, **{k: v for k, v in form_values(plan).items() if v}}, NONE)
    assert again == plan


def test_every_field_is_shown_and_its_list_holds_what_is_shown():
    plan, _ = planned({"decay": "linear"}, NONE)
    settings = form_values(plan)
    for field in (field for group in FIELDS.values() for field in group):
        if field.option not in ("dataset", "own", "schema"):
            assert field.option in settings
            assert not field.choices or settings[field.option] in field.choices
    assert {"dataset", "own", "schema"} == {f.option for g in FIELDS.values() for f in g} - settings.keys()
    assert "own" not in OPTIONS


def test_the_sentence_says_what_the_accountant_says_of_the_whole_plan():
    form = {"rounds": "5", "sigma": "9"}
    told = forecast.epsilon(form, NONE)
    plan, _ = planned(form, NONE)
    data = load("digits")
    ledger = Budget(plan, data, Population.of(plan, data).copies).ledger(5, 5)
    held = account(ledger, plan.delta, ADD_REMOVE, "server")
    assert told["epsilon"] == pytest.approx(held.epsilon, rel=1e-12)
    assert told["says"] == (
        f"This plan costs epsilon {held.epsilon:.3g} against an honest-but-curious server, for one example at delta "
        "1e\u201105."  # a line of the page must not break within it
    )


def test_no_guarantee_and_a_budget_are_said():
    assert "has no finite epsilon" in forecast.epsilon({"method": "non-private"}, NONE)["says"]
    told = forecast.epsilon({"max-epsilon": "1"}, NONE)["says"]
    assert "the run stops before it exceeds 1." in told


@pytest.mark.parametrize("form", [{"rounds": "10001"}, {"clients": "2000000", "client-size": "1"}])
def test_a_plan_that_would_keep_the_server_busy_is_not_forecast(form):
    for ask in (forecast.epsilon, forecast.duration):
        with pytest.raises(BadInput):
            ask(form, NONE)


def test_time_grows_with_rounds_and_is_measured_once(monkeypatch):
    calls, real = [], forecast.measured

    def counted(*arguments):
        calls.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(forecast, "measured", counted)
    monkeypatch.setattr(forecast, "_MEASURED", {})
    small = {"dataset": "synthetic", "clients": "4", "client-size": "40", "batch": "4", "rounds": "3"}
    one = forecast.duration(small, NONE)
    many = forecast.duration(small | {"rounds": "3000", "sigma": "7", "lr": "0.7"}, NONE)
    assert many["seconds"] == pytest.approx(1000 * one["seconds"])
    assert len(calls) == 1
    assert one["says"].startswith("It takes ")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(3, "less than a minute"), (70, "about 1 minute"), (150, "about 2 minutes"), (7300, "about 2 hours")],
)
def test_a_duration_is_said_as_people_do(seconds, said):
    assert in_words(seconds) == said
