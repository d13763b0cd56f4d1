"""`gradveil table sound`: each run once and on disk, records of other settings dropped, the page as the records say."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gradveil.cli.main import main
from gradveil.errors import BadInput
from gradveil.reports.sound_figure import described, figure_text
from gradveil.reproduction import sound_runs
from gradveil.reproduction.sound_beside import OURS, PAPER_FIGURES, SOUND_EPSILON
from gradveil.reproduction.sound_cells import DATASETS, EPSILONS, FURTHER, SoundRecord, SoundSetting, means, settings
from gradveil.reproduction.sound_page import cell_text, page, rows
from gradveil.reproduction.sound_records import SoundRecords
from gradveil.reproduction.sound_runs import SoundDriver

ROOT = Path(__file__).parents[2]
COMMITTED = SoundRecords(ROOT / "results" / "records")
SETTING = SoundSetting("cancer", "fed-sum", "server", 3.0)


def record_of(seed, accuracy, setting=SETTING, digest=None):
    return SoundRecord(
        dataset=setting.dataset,
        method=setting.method,
        threat_model=setting.threat_model,
        target_epsilon=setting.target_epsilon,
        epsilon=0.99 * setting.target_epsilon,
        delta=1e-5,
        unit="example",
        seed=seed,
        accuracy=accuracy,
        rounds=11,
        seconds=2.0,
        plan_sha256=digest or f"{seed:064x}",
        data_sha256="0" * 64,
        versions={"gradveil": "1"},
    )


def load_cancer(name, **given):
    from gradveil.data.sources import load

    return load(name, **given)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """One cell of two seeds, filled; the notes say which runs were done."""
    notes, records = [], SoundRecords(tmp_path_factory.mktemp("records"))
    driver = SoundDriver(records, load_cancer, seeds=2, progress=notes.append)
    driver._fill(SETTING, 0.0)
    return driver, notes, records


def test_a_cell_leaves_a_record_a_seed_that_spent_no_more_than_its_target(filled):
    _, notes, records = filled
    held = records.read()
    assert len(notes) == len(held) == 2
    assert [record.seed for record in held] == [0, 1]
    assert all(2.9 < record.epsilon <= 3.0 and record.unit == "example" for record in held)
    assert all(0.8 < record.accuracy <= 1.0 for record in held)
    assert len({record.plan_sha256 for record in held}) == 2


def test_the_recorded_epsilon_is_that_of_the_gaussians_that_were_added(filled):
    """The oracle: mu^2 = sum of 1 / z^2 over one mean and ten steps, and the curve of a Gaussian mechanism."""
    plan = sound_runs.plans_of(SETTING, load_cancer("cancer"), load_cancer, 1)[0]
    sigma, share = plan.method.noise.sigma, plan.model.mean.share
    steps = plan.rounds - 1
    mu = math.sqrt(steps / sigma**2 / (1 - share**2))  # the steps have what the mean leaves of mu^2

    def delta(epsilon):
        def below(x):
            return 0.5 * math.erfc(-x / math.sqrt(2))

        return below(mu / 2 - epsilon / mu) - math.exp(epsilon) * below(-mu / 2 - epsilon / mu)

    recorded = filled[2].read()[0].epsilon
    assert delta(recorded) == pytest.approx(1e-5, rel=0.02)
    assert delta(1.02 * recorded) < 0.98 * 1e-5  # the check would notice two percent


def test_what_has_a_record_is_not_run_again_and_a_lost_one_is(filled):
    driver, notes, records = filled
    before = records.read()
    notes.clear()
    driver._fill(SETTING, 0.0)
    assert notes == []
    records.write(before[:1])
    driver._fill(SETTING, 0.0)
    assert len(notes) == 1
    again = records.read()
    assert [(r.seed, r.accuracy, r.epsilon) for r in again] == [(r.seed, r.accuracy, r.epsilon) for r in before]


def test_records_of_other_settings_are_dropped_with_their_whole_cell(filled, tmp_path):
    _, notes, records = filled
    other = record_of(0, 0.5, replace(SETTING, target_epsilon=1.0))
    stale = SoundRecords(tmp_path)
    stale.write([record_of(0, 0.5), record_of(1, 0.5), record_of(7, 0.5), other])
    driver = SoundDriver(stale, load_cancer, seeds=1, progress=notes.append)
    driver._fill(SETTING, 0.0)
    kept = stale.read()
    assert other in kept
    assert [r.seed for r in kept if r.setting == SETTING] == [0]
    assert kept[-1].plan_sha256 == records.read()[0].plan_sha256


def test_without_minutes_nothing_is_run_and_a_missing_dataset_is_left_out_with_a_sentence(tmp_path):
    def refuse(name, **given):
        raise BadInput(f"{name}: is not there")

    driver = SoundDriver(SoundRecords(tmp_path), refuse, seeds=1)
    driver.fill(["adult", "cancer"])
    assert driver.lacking == {"adult": "adult: is not there", "cancer": "cancer: is not there"}
    late = SoundDriver(SoundRecords(tmp_path), refuse, seeds=1, minutes=0)
    late.fill(["adult"])
    assert late.lacking == {}


def test_records_are_read_as_they_were_written_in_the_order_of_the_table(tmp_path):
    first = record_of(3, 0.9, SoundSetting("mnist", "fed-sum", "server", 8.0))
    records = SoundRecords(tmp_path / "new")
    assert records.read() == ()
    records.write([record_of(1, 0.7), record_of(0, 0.8), first])
    assert records.read() == (first, record_of(0, 0.8), record_of(1, 0.7))


def test_a_line_that_is_no_record_is_refused_by_its_number(tmp_path):
    records = SoundRecords(tmp_path)
    records.write([record_of(0, 0.9)])
    records.path.write_text(records.path.read_text() + '{"dataset": "mnist"}\n')
    with pytest.raises(BadInput, match=r"line 2: is no record .*delete this line"):
        records.read()


def test_a_cell_is_the_mean_and_the_deviation_of_its_seeds():
    cell = means([record_of(0, 0.90), record_of(1, 0.94), record_of(2, 0.95)])[SETTING]
    assert cell.accuracy == pytest.approx(0.93)
    assert cell.spread == pytest.approx(math.sqrt((0.03**2 + 0.01**2 + 0.02**2) / 2))
    line = next(r for r in rows([record_of(0, 0.90), record_of(1, 0.94)]) if r[:3] == ["Cancer", "fed-sum", "server"])
    assert line == ["Cancer", "fed-sum", "server", *["not run"] * 3, "92.00 ±2.83 (n=2)", "not run", "2"]


def test_a_row_without_any_run_is_named_below_the_table_and_not_in_it():
    held = [record_of(0, 0.9)]
    assert [row[:3] for row in rows(held)] == [["Cancer", "fed-sum", "server"]]
    sentence = next(line for line in page(held).splitlines() if line.startswith("Not run at any epsilon"))
    assert "`fed-sum` against server on MNIST, Fashion-MNIST, CIFAR-10, LFW, Adult;" in sentence
    assert "`fed-cdp` against server on MNIST, Fashion-MNIST, CIFAR-10, LFW, Adult, Cancer." in sentence


def test_the_seconds_of_a_cell_are_the_median_so_that_compiling_once_does_not_count():
    runs = [replace(record_of(seed, 0.9), seconds=took) for seed, took in enumerate((60.0, 3.0, 4.0))]
    assert means(runs)[SETTING].seconds == 4.0


def test_a_cell_says_what_was_spent_where_that_is_much_less_than_its_target():
    cell = means([replace(record_of(0, 0.9), epsilon=2.0)])[SETTING]
    assert cell_text(cell, 3.0) == "90.00 (n=1, spent 2)"
    assert cell_text(cell, 2.0) == "90.00 (n=1)"


def test_every_dataset_has_a_cell_for_every_epsilon_and_those_of_fed_sum_are_run():
    cells = list(settings(DATASETS))
    assert len(set(cells)) == len(cells) == 6 * 3 * len(EPSILONS) + len(FURTHER)
    assert all(cell.is_run for cell in cells if cell.method == "fed-sum")


def test_the_page_in_the_documents_is_what_the_records_give():
    held = COMMITTED.read()
    assert held
    assert (ROOT / "docs" / "sound.md").read_text() == page(held)
    assert page(held[1:]) != page(held)


def test_the_figure_in_the_documents_tells_the_points_of_the_records():
    held, svg = COMMITTED.read(), (ROOT / "docs" / "sound.svg").read_text()
    told = re.search("<desc>(.*?)</desc>", svg, re.DOTALL)[1]
    assert told == described(held)
    assert told != described(held[1:])
    assert "UNSOUND" in svg


def test_no_committed_record_exceeds_its_target_and_none_stands_twice():
    held = COMMITTED.read()
    assert all(record.epsilon <= record.target_epsilon for record in held)
    assert len({(record.setting, record.seed) for record in held}) == len(held)


def test_what_is_quoted_stands_in_the_results():
    fidelity = " ".join((ROOT / "docs" / "fidelity.md").read_text().split())
    page = (ROOT / "docs" / "results.md").read_text()
    fixed = page.partition("## privacy-fixed-rounds")[2].partition("\n## ")[0].splitlines()
    (sound,) = {line for line in fixed if line.startswith("| fed-cdp / sound epsilon |")}
    assert [float(x) for x in re.findall(r"· ([\d.]+) \[", sound)] == list(SOUND_EPSILON.values())
    for method, name, spent in (
        ("fed-cdp", "Fed-CDP", "epsilon 25.9 against the server"),
        ("fed-alpha-cdp", "Fed-alphaCDP", "no finite epsilon"),
    ):
        assert f"{name} {OURS['mnist', method].accuracy:.4f} ({spent})" in fidelity
        (row,) = {line for line in fixed if line.startswith(f"| {method} / accuracy |")}
        for place, dataset in ((-3, "adult"), (-2, "cancer")):
            assert f"{OURS[dataset, method].accuracy:.4f} ±" in row.split("|")[place]
    assert all(OURS[dataset, "fed-cdp"].epsilon == SOUND_EPSILON[dataset] for dataset in ("adult", "cancer"))


def test_two_folders_of_sound_records_are_refused(tmp_path, capsys):
    given = ["--records", str(tmp_path), "--out", str(tmp_path / "other"), "--minutes", "0"]
    assert main(["table", "sound", *given]) == 2
    sentence = "records, out: name the same folder for sound, where its records are; give one"
    assert capsys.readouterr().err == f"gradveil: {sentence}\n"


def test_a_figure_is_drawn_of_any_records_and_marks_the_papers_points():
    svg = figure_text([record_of(0, 0.93)])
    assert svg.startswith("<svg")
    assert "Cancer, fed-sum against server: 93.00 at 2.97" in svg
    assert svg.count("(unsound)") == sum(figure.dataset == "cancer" for figure in PAPER_FIGURES) == 2
    assert "CIFAR-10" not in svg


def test_the_command_shows_and_prints_records_and_writes_the_page(tmp_path, capsys):
    SoundRecords(tmp_path).write([record_of(0, 0.93)])
    common = ["table", "sound", "--minutes", "0", "--out", str(tmp_path)]
    assert main([*common, "--datasets", "cancer"]) == 0
    assert "93.00 (n=1)" in capsys.readouterr().out
    assert main([*common, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [record["accuracy"] for record in answer["sound"]] == [0.93]
    assert answer["lacking"] == []
    assert main([*common, "--docs", str(tmp_path / "docs")]) == 0
    assert (tmp_path / "docs" / "sound.md").read_text() == page([record_of(0, 0.93)])
    assert (tmp_path / "docs" / "sound.svg").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["sound", "--datasets", "mnist,nosuch"], "datasets = 'nosuch'"),
        (["sound", "--seeds", "0"], "seeds = 0"),
        (["sound", "--minutes", "-1"], "minutes = -1"),
        (["sound", "--docs", "d"], "holds no sound.jsonl"),
        (["datasets", "--datasets", "mnist,nosuch"], "datasets = 'nosuch'"),
        (["datasets", "--docs", "d"], "only all and sound have a page"),
        (["datasets", "--seeds", "0"], "seeds = 0"),
    ],
)
def test_bad_options_are_refused_by_their_key_and_leave_nothing(options, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["table", *options]) == 2
    answer = capsys.readouterr()
    assert said in answer.err
    assert len(answer.err.splitlines()) == 1
    assert not any(tmp_path.iterdir())
