import json

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from gradveil.cli.main import main

MNIST = ["account", "--sigma", "6", "--q", "0.01", "--rounds", "100", "--local-steps", "100", "--batch", "5"]


def ask(capsys, *arguments):
    code = main([*arguments, "--json"])
    answer = capsys.readouterr()
    assert code == 0, answer.err
    return json.loads(answer.out)


def refused(capsys, *arguments):
    code = main(list(arguments))
    answer = capsys.readouterr()
    assert (code, answer.out) == (2, "")
    assert len(answer.err.splitlines()) == 1
    return answer.err


def epsilon_against(answer, threat):
    (held,) = [g for g in answer["guarantees"] if g["threat_model"] == threat]
    return held["epsilon"]


def test_account_gives_the_paper_figures_and_the_tight_ones(capsys):
    answer = ask(capsys, "account", "--sigma", "6", "--q", "0.01", "--steps", "10000", "--delta", "1e-5")
    wanted = {"base": 123.457, "advanced": 7.458, "zcdp": 1.1588, "moments": 0.8227, "rdp": 0.659, "pld": 0.601}
    assert {name: answer[name] for name in wanted} == pytest.approx(wanted, rel=1e-3)


def test_account_answers_for_every_adversary_or_the_one_named(capsys):
    everyone = ask(capsys, *MNIST, "--client-q", "0.1")
    assert epsilon_against(everyone, "server") == pytest.approx(0.602, rel=0.02)
    assert epsilon_against(everyone, "central-visible") == pytest.approx(0.188, rel=0.02)
    alone = ask(capsys, *MNIST, "--threat-model", "server", "--participations", "10", "--layers", "3")
    assert len(alone["guarantees"]) == 1
    assert epsilon_against(alone, "server") == pytest.approx(0.321, rel=0.02)


def test_a_fixed_pass_and_replace_one_cost_more(capsys):
    known = [*MNIST, "--sampling", "fixed-pass", "--participations", "10", "--threat-model", "type2-known"]
    assert epsilon_against(ask(capsys, *known), "type2-known") == pytest.approx(2.11, rel=0.02)
    replaced = ask(capsys, *known, "--adjacency", "replace-one")
    assert epsilon_against(replaced, "type2-known") == pytest.approx(4.65, rel=0.02)


def test_random_allocation_is_accounted_and_solved_for(capsys):
    allocated = ["--sampling", "allocation", "--participations", "10", "--threat-model", "server"]
    found = ask(capsys, *MNIST, *allocated)
    assert epsilon_against(found, "server") == pytest.approx(0.171, rel=5e-3)
    assert found["guarantees"][0]["sampling"].startswith("allocation batches at rate 0.01")
    plan = ["plan", "--target-epsilon", "0.171", "--q", "0.01", "--rounds", "100", "--local-steps", "100", *allocated]
    assert ask(capsys, *plan)["sigma"] == pytest.approx(6.0, rel=5e-3)
    too_long = ["--q", "1e-5", "--client-size", "100000"]
    assert "65536 batches" in refused(capsys, "account", "--sigma", "6", "--steps", "3", *too_long, *allocated[:2])


def test_a_decay_is_accounted_step_by_step_and_its_rounding_is_told(capsys):
    answer = ask(
        capsys, *MNIST, "--decay", "exponential", "--sigma", "15", "--sigma-end", "4.85", "--threat-model", "server"
    )
    assert answer["moments"] == pytest.approx(0.633, rel=0.02)
    assert answer["rounding_cost"] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        ["--q", "0"],
        ["--q", "1.5"],
        ["--sigma", "0"],
        ["--sigma", "-1"],
        ["--delta", "0"],
        ["--delta", "1"],
        ["--steps", "0"],
        ["--steps", "2.5"],
        ["--adjacency", "swap"],
        ["--threat-model", "martian"],
        ["--participations", "101"],
        ["--draw", "sometimes"],
        ["--sampling", "lucky"],
        ["--decay", "sudden"],
    ],
    ids=" ".join,
)
def test_bad_questions_are_refused_in_one_sentence(capsys, wrong):
    given = ["account", "--sigma", "6", "--q", "0.01", "--rounds", "100", "--local-steps", "1"]
    assert wrong[0].strip("-").replace("-", "_").split("_")[0] in refused(capsys, *given, *wrong)


def test_a_terminal_is_told_which_epsilon_to_report(capsys):
    assert main(["account", "--sigma", "6", "--q", "1", "--steps", "4"]) == 0
    assert "Report `server` (or `type2-known`" in capsys.readouterr().out


def test_a_plan_meets_its_target_and_hardly_less(capsys):
    given = ["plan", "--target-epsilon", "2", "--q", "0.1", "--rounds", "50"]
    found = ask(capsys, *given)
    assert 1.97 < found["guarantee"]["epsilon"] <= 2
    again = ask(
        capsys, "account", "--sigma", repr(found["sigma"]), "--q", "0.1", "--rounds", "50", "--local-steps", "1"
    )
    assert epsilon_against(again, "server") == pytest.approx(found["guarantee"]["epsilon"])
    assert [p["rounds"] for p in found["curve"]][-1] == 50


def test_a_plan_finds_the_most_rounds(capsys):
    found = ask(capsys, "plan", "--target-epsilon", "1", "--q", "1", "--sigma", "10", "--solve", "rounds")
    more = ["account", "--sigma", "10", "--q", "1", "--rounds", str(found["rounds"] + 1), "--local-steps", "1"]
    assert found["guarantee"]["epsilon"] <= 1 < epsilon_against(ask(capsys, *more), "server")


def test_a_plan_finds_where_a_decay_must_start(capsys):
    given = ["plan", "--target-epsilon", "2", "--q", "1", "--rounds", "20", "--decay", "linear", "--sigma-end", "4"]
    found = ask(capsys, *given, "--solve", "decay", "--s-dyn", "2", "--clip", "4", "--sigma", "6")
    assert found["sigma"] > 4
    assert found["guarantee"]["epsilon"] <= 2
    assert found["paper_rule_sigma_0"] == 12


def test_an_unsolvable_plan_exits_1_with_the_reason(capsys):
    given = ["plan", "--target-epsilon", "0.001", "--q", "1", "--rounds", "20", "--decay", "linear", "--sigma-end", "2"]
    assert main([*given, "--solve", "decay"]) == 1
    assert "sigma_T" in capsys.readouterr().err
    assert main(["plan", "--target-epsilon", "0.01", "--q", "1", "--sigma", "1", "--solve", "rounds"]) == 1


def run_small(tmp_path, *more):
    sizes = {"--clients": "4", "--cohort": "2", "--client-size": "100", "--batch": "50", "--rounds": "30"}
    small = [word for pair in sizes.items() for word in pair]
    return ["run", "--dataset", "synthetic", *small, "--out", str(tmp_path / "run"), *more]


def test_a_run_stops_before_the_release_that_would_overspend(capsys, tmp_path):
    answer = ask(capsys, *run_small(tmp_path, "--max-epsilon", "0.8", "--method", "fed-cdp"))
    assert answer["stopped_because"] == "budget"
    assert 0 < epsilon_against(answer, "server") <= 0.8
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(line["spent"]["epsilon"] <= 0.8 for line in lines)
    assert lines[-1]["rounds_left"] <= 2
    more = ask(capsys, "run", "--resume", "--out", str(tmp_path / "run"))
    assert more["rounds"] == answer["rounds"]


def test_a_budget_is_refused_where_nothing_is_guaranteed_unless_the_paper_figure_is_meant(capsys, tmp_path):
    given = run_small(tmp_path, "--max-epsilon", "1", "--method", "fed-alpha-cdp")
    assert "no finite guarantee" in refused(capsys, *given)
    answer = ask(capsys, *given, "--accountant", "paper-moments")
    assert answer["stopped_because"] == "budget"
    assert epsilon_against(answer, "server") is None
    assert answer["as_the_paper_accounts"]["moments"] <= 1


def test_no_result_holds_a_bare_epsilon(capsys, tmp_path):
    answer = ask(capsys, *run_small(tmp_path, "--rounds", "1"))
    assert "epsilon" not in answer
    for held in answer["guarantees"]:
        assert {"delta", "unit", "threat_model", "adjacency", "sampling", "noise_source", "caveats"} <= held.keys()
        assert held["finite"] is (held["epsilon"] is not None)


def client_rows(capsys, *options):
    answer = ask(capsys, "account", "--sigma", "6", "--q", "0.01", "--steps", "1", *options)
    return {g["threat_model"]: g for g in answer["guarantees"]}


@pytest.mark.parametrize(
    "options", [("--batch", "5"), ("--client-size", "500"), ("--batch", "5", "--client-size", "500")]
)
def test_a_whole_client_is_charged_for_all_records_that_its_batch_may_hold(capsys, options):
    """The truth, integrated over the binomial number of its 500 records: 5.14; five for certain would be 3.55."""
    held = client_rows(capsys, *options)
    assert held["client-server"]["epsilon"] == pytest.approx(5.142, rel=5e-3)
    assert held["client-central"]["epsilon"] == held["client-server"]["epsilon"]


def test_a_batch_of_unknown_size_leaves_a_whole_client_without_a_guarantee(capsys):
    held = client_rows(capsys)
    assert (held["client-server"]["epsilon"], held["client-server"]["finite"]) == (None, False)
    assert "give the batch size" in held["client-server"]["caveats"][0]
    assert held["server"]["finite"]


def test_a_secret_cohort_is_shown_as_a_presumption_and_refused_as_a_target(capsys):
    answer = ask(capsys, *MNIST, "--client-q", "0.1")
    (shown,) = answer["presumed"]
    held = {g["threat_model"]: g["epsilon"] for g in answer["guarantees"]}
    assert shown["epsilon"] == pytest.approx(0.0486, rel=0.01)
    assert "not a guarantee" in shown["label"]
    assert held["central"] == held["central-visible"] == pytest.approx(0.1884, rel=0.01)
    wanted = ["plan", "--target-epsilon", "1", "--q", "0.01", "--client-q", "0.1", "--threat-model"]
    assert main([*wanted, "central"]) == 2
    assert "central-visible" in capsys.readouterr().err
    assert main([*wanted, "central-visible", "--json"]) == 0


def test_a_target_that_hardly_any_noise_meets_is_answered_with_noise_that_still_covers_something(capsys):
    """Below a multiplier of about 0.19 the end of the noise gives a record away, whatever epsilon is allowed."""
    answer = ask(capsys, "plan", "--target-epsilon", "100000", "--q", "0.01", "--rounds", "10")
    assert 0.17 < answer["sigma"] < 0.2
    assert answer["guarantee"]["epsilon"] <= 100000


def test_a_search_for_rounds_that_comes_to_its_end_says_so(capsys):
    wanted = ["plan", "--solve", "rounds", "--q", "0.001", "--target-epsilon"]
    assert ask(capsys, *wanted, "10")["search_ended"] is True
    few = ask(capsys, *wanted, "0.01")
    assert (few["search_ended"], few["rounds"] < 2**15) == (False, True)
    assert main([*wanted, "10"]) == 0
    assert "More rounds may be possible: the search ends at" in capsys.readouterr().out


@pytest.mark.parametrize(("q", "size"), [(0.01, 149), (0.01, 151), (0.1, 24)])
def test_a_whole_client_holds_as_many_records_as_were_given(capsys, q, size):
    """Against the densities of the mixture over the binomial number of its records, on a line."""
    line = np.linspace(-80.0, 120.0, 20_001)
    bells = np.exp(-0.5 * ((line - np.arange(size + 1)[:, None]) / 6) ** 2) / (6 * np.sqrt(2 * np.pi))
    there, without = binom.pmf(np.arange(size + 1), size, q) @ bells, bells[0]

    def gap(epsilon, a, b):
        return float(np.sum(np.maximum(0, a - np.exp(epsilon) * b)) * (line[1] - line[0])) - 1e-5

    true = max(brentq(gap, 0, 20, args=pair) for pair in ((there, without), (without, there)))
    answer = ask(capsys, "account", "--sigma", "6", "--q", str(q), "--steps", "1", "--client-size", str(size))
    assert epsilon_against(answer, "client-server") == pytest.approx(true, rel=5e-3)


def test_a_fixed_pass_holds_a_record_once_however_small_the_rate(capsys):
    asked = ("account", "--sigma", "6", "--q", "1e-9", "--steps", "1", "--sampling", "fixed-pass")
    assert epsilon_against(ask(capsys, *asked), "server") == pytest.approx(0.594, rel=1e-2)


def test_replacement_needs_a_batch(capsys):
    assert "needs --batch" in refused(
        capsys, "account", "--sigma", "6", "--q", "0.1", "--steps", "1", "--sampling", "replacement"
    )
    refused(capsys, "account", "--sigma", "6", "--q", "1e-9", "--steps", "1", "--batch", "2000000")
