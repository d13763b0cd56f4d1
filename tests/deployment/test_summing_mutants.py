"""Every check of a node that takes part in secure sums is tested: without it, the test of what it refuses goes red."""

from pathlib import Path

import pytest
from mutants import Mutant, execute, notices, rebuild, run

HERE = Path(__file__).parent
MESSAGES, POLICY, NODE, SUMMING = (
    "engines/sum_messages.py",
    "deployment/policy.py",
    "deployment/node.py",
    "deployment/summing.py",
)
WIRE, ENGINE = "engines/flower/sum_wire.py", "engines/flower/sum_engine.py"
FILES = (MESSAGES, WIRE, ENGINE, POLICY, "deployment/spending.py", NODE, SUMMING)
FORBIDDEN, ORDERS, LIES, CHARGED, POOR, TRUSTED = (
    "test_a_plan_that_the_policy_forbids_or_that_was_not_introduced_is_refused",
    "test_orders_that_leave_clients_out_or_come_without_masks_are_refused",
    "test_a_server_that_tells_one_node_something_else_gets_random_numbers_and_all_are_charged",
    "test_retries_at_will_have_fresh_noise_and_end_where_the_policy_does",
    "test_a_node_that_could_not_afford_all_rounds_refuses_at_the_roll_call",
    "test_whom_a_policy_trusts_decides_what_is_counted",
)
ROSTERS = "test_a_node_without_a_roster_or_with_another_than_its_policy_names_makes_no_sums"

MUTANTS = (
    Mutant(POLICY, "plan.secure_sum.colluders < self.tolerated", "False", FORBIDDEN, "fewer colluders",
           also=((SUMMING, "Crowd(tolerated=policy.tolerated,", "Crowd(tolerated=1,"),)),
    Mutant(POLICY, "< self.minimum_sigma", "< 0", FORBIDDEN, "less noise"),
    Mutant(POLICY, "if plan.noise_source is NoiseSource.SEEDED and not self.allow_seeded:", "if False:", TRUSTED),
    Mutant(SUMMING, " or order.nodes != sums.nodes", "", FORBIDDEN, "another number of nodes"),
    Mutant(SUMMING, "if (objection := self.node.objection(order)) is not None:", "if False:", FORBIDDEN, "less noise"),
    Mutant(SUMMING, "if not np.array_equal(order.clients,", "if False and not np.array_equal(order.clients,", ORDERS),
    Mutant(NODE, "if order.plan.secure_sum is not None:\n            return Refusal",
           "if False:\n            return Refusal", ORDERS),
    Mutant(SUMMING, "if len(request.cards) > one.sums.nodes:", "if False:",
           "test_more_cards_than_the_plan_has_nodes_are_refused"),
    Mutant(SUMMING, "if self.epochs is None:", "if False:", ROSTERS),
    Mutant(SUMMING, "if policy.roster is not None and policy.roster != roster.digest:", "if False:", ROSTERS),
    Mutant(SUMMING, "spending.spend(policy, name, new, attempt.round, order.clients.tolist())", "None", CHARGED),
    Mutant(SUMMING, "raise Refused(refused)\n\n        return answer(", "pass\n\n        return answer(", CHARGED),
    Mutant(SUMMING, "raise Refused(refused)\n        return epochs", "pass\n        return epochs", POOR),
    Mutant(SUMMING, "            begun=begun,\n", "",
           "test_the_time_for_an_answer_begins_when_a_node_is_asked_and_counts_what_it_reads"),
    Mutant(MESSAGES, ", *order.params", "", LIES, "weights"),
    Mutant(MESSAGES, "order.nodes, order.key,", "order.nodes,", LIES, "key"),
)  # fmt: skip


def executed(monkeypatch, changes):
    """Execute the node's files with changes, and on top of them the tests: give their names, and those of the nodes."""
    rebuild(monkeypatch, FILES, changes)
    nodes = execute(monkeypatch, "sums_in_memory", HERE / "sums_in_memory.py")
    return vars(execute(monkeypatch, "test_summing_of_mutants", HERE / "test_summing.py")), nodes


def fixtures_of(nodes, folder, signers, monkeypatch):
    def sums(plan=nodes.SUMS, policy=nodes.OPEN):
        return nodes.Sums(folder, signers, policy, plan)

    return {"sums": sums, "signers": signers, "tmp_path": folder, "monkeypatch": monkeypatch}


CASES = {(mutant.test, mutant.case) for mutant in MUTANTS}


def test_all_these_tests_pass_on_a_copy_without_a_change(monkeypatch, signers, tmp_path):
    tests, nodes = executed(monkeypatch, ())
    for i, (name, case) in enumerate(sorted(CASES, key=str)):
        with monkeypatch.context() as inner:
            run(tests[name], fixtures_of(nodes, tmp_path / str(i), signers, inner), case)


@pytest.mark.parametrize("mutant", MUTANTS, ids=Mutant.name)
def test_where_a_check_is_taken_out_its_test_goes_red(monkeypatch, signers, tmp_path, mutant):
    tests, nodes = executed(monkeypatch, mutant.changes)
    assert notices(tests[mutant.test], fixtures_of(nodes, tmp_path, signers, monkeypatch), mutant.case)
