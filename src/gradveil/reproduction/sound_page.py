"""The table of sound accuracy as Markdown, from its records alone."""

from collections.abc import Iterable, Sequence

from gradveil.reproduction.sound_beside import PAPER_FIGURES, OurFigure, PaperFigure
from gradveil.reproduction.sound_cells import (
    DATASETS,
    EPSILONS,
    FURTHER,
    PROJECTED,
    ROWS,
    SoundMean,
    SoundRecord,
    SoundSetting,
    means,
    settings,
)

NOT_RUN = "not run"
NEARLY = 0.99
"""Part of the target that is spent if nothing but the target limits the noise from below."""
TITLES = {
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "lfw": "LFW",
    "adult": "Adult",
    "cancer": "Cancer",
}
HEADS = ("data", "method", "against", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS), "seconds")
LIST_HEADS = ("data", "method", "against", "epsilon", "accuracy (%)")
PAPER_HEADS = (
    "data",
    "method",
    "accuracy printed",
    "epsilon printed",
    "epsilon that holds",
    "with us",
)
OPENING = """# Sound accuracy

Test accuracy in percent at an epsilon that is proved: delta 1e-5, one example, add or remove, by PLD over everything
that the run released, preparation rounds included. A cell is the mean over seeds ± the standard deviation between
them, and the number of seeds; the sampling error of the test set comes on top. `server` sees what every client sends;
`aggregate` sees only the sums over all clients, which takes secure aggregation. Seconds are those of training, the
median over seeds and their mean over a row, on a machine that was busy with other work; features of pictures are
extracted once before. The settings of `fed-sum` were searched on held-out training examples of the same published data
([methods.md](methods.md)), and that search is in no epsilon. Maps of features are fitted to procedural pictures
([features.md](features.md)), not to any dataset. `fed-cdp` has the clients, rounds and rate of the paper's preset and
the noise that the epsilon takes; its rate was not searched. Cancer's measurements are scaled by mean and deviation of
its own training records, which no epsilon here covers; all other data are scaled by public constants.

![Accuracy over epsilon by method and dataset; the paper's points are marked unsound](sound.svg)"""
PAPER = """## The paper's figures, which are unsound

The printed epsilon is not one of the algorithm that is printed beside it ([soundness.md](soundness.md)). The epsilon
that holds is that of the paper's whole plan against the server; Fed-alphaCDP scales its noise to the private gradients
and has none, so it has no row above. "With us" is what training at the paper's sigma, clients and rounds gave and spent
([results.md](results.md); MNIST: one seed and a searched rate, [fidelity.md](fidelity.md))."""
SECTION = """## Accuracy at an epsilon that holds

Test accuracy in percent, mean over seeds ± standard deviation between them; [sound.md](sound.md) says how each figure
was obtained, and has the paper's figures beside them.

![Accuracy over epsilon by method and dataset; the paper's points are marked unsound](sound.svg)"""
CLOSING = (
    "Made by `make results` from `results/records/sound.jsonl`; `gradveil table sound` runs what is missing there."
)


def page(records: Sequence[SoundRecord]) -> str:
    """Return the page of all records."""
    parts = (
        OPENING,
        _table(HEADS, rows(records)),
        *_further(means(records)),
        *_left_out(means(records)),
        PAPER,
        _table(PAPER_HEADS, map(_paper_row, PAPER_FIGURES)),
        CLOSING,
    )
    return "\n\n".join(parts) + "\n"


def section(records: Sequence[SoundRecord]) -> str:
    """Return the figure and the table for a page with other results."""
    return f"{SECTION}\n\n{_table(HEADS, rows(records))}"


def rows(records: Sequence[SoundRecord]) -> list[list[str]]:
    """Return the rows of the table under HEADS, a method and an adversary each; one without any run is left out."""
    filled = means(records)
    return [_row(filled, dataset, *row) for dataset in DATASETS for row in ROWS if _was_run(filled, dataset, *row)]


def _was_run(filled: dict[SoundSetting, SoundMean], dataset: str, method: str, threat_model: str) -> bool:
    return any(SoundSetting(dataset, method, threat_model, epsilon) in filled for epsilon in EPSILONS)


def _further(filled: dict[SoundSetting, SoundMean]) -> list[str]:
    """Tell the cells outside the grid that were run, in a list below a line; none if there are none."""
    lines = [
        f"- {TITLES[s.dataset]}, `{s.method}` against {s.threat_model} at epsilon {s.target_epsilon:g}: "
        f"{cell_text(filled[s], s.target_epsilon)}"
        for s in FURTHER
        if s in filled
    ]
    return (
        [f"Outside the grid (`{PROJECTED}` projects features at random, by no fitted map):", "\n".join(lines)]
        if lines
        else []
    )


def _left_out(filled: dict[SoundSetting, SoundMean]) -> list[str]:
    """Name the rows of which nothing was run, in a sentence; none if there are none."""
    missing = {row: [TITLES[d] for d in DATASETS if not _was_run(filled, d, *row)] for row in ROWS}
    named = [f"`{method}` against {threat} on {', '.join(on)}" for (method, threat), on in missing.items() if on]
    return [f"Not run at any epsilon: {'; '.join(named)}."] if named else []


def listed(records: Sequence[SoundRecord], datasets: Sequence[str]) -> list[list[str]]:
    """Return a row for each cell under LIST_HEADS, which fits a terminal."""
    filled = means(records)
    return [
        [
            TITLES[s.dataset],
            s.method,
            s.threat_model,
            f"{s.target_epsilon:g}",
            cell_text(filled.get(s), s.target_epsilon),
        ]
        for s in settings(datasets)
    ]


def _row(filled: dict[SoundSetting, SoundMean], dataset: str, method: str, threat_model: str) -> list[str]:
    cells = {epsilon: filled.get(SoundSetting(dataset, method, threat_model, epsilon)) for epsilon in EPSILONS}
    seconds = [cell.seconds for cell in cells.values() if cell is not None]
    took = f"{sum(seconds) / len(seconds):.0f}" if seconds else ""
    return [TITLES[dataset], method, threat_model, *(cell_text(cell, target) for target, cell in cells.items()), took]


def cell_text(cell: SoundMean | None, target: float) -> str:
    """Return the mean in percent, its spread and the number of seeds; and epsilon where much less was spent."""
    if cell is None:
        return NOT_RUN
    spread = "" if cell.spread is None else f" ±{100 * cell.spread:.2f}"
    spent = f", spent {cell.epsilon:.3g}" if cell.epsilon < NEARLY * target else ""
    return f"{100 * cell.accuracy:.2f}{spread} (n={cell.n}{spent})"


def _paper_row(figure: PaperFigure) -> list[str]:
    return [
        TITLES[figure.dataset],
        figure.method,
        f"{100 * figure.accuracy:.1f}",
        f"{figure.epsilon:g} (unsound)",
        "none" if figure.sound_epsilon is None else f"{figure.sound_epsilon:g}",
        _our_text(figure.ours),
    ]


def _our_text(ours: OurFigure | None) -> str:
    if ours is None:
        return NOT_RUN
    spent = "no finite epsilon" if ours.epsilon is None else f"epsilon {ours.epsilon:g}"
    return f"{100 * ours.accuracy:.2f}, {spent}"


def _table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---"] * len(heads)
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *lines))
