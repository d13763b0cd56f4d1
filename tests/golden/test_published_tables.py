"""The transcribed tables are the paper's: every cell, heading and row label is compared with its LaTeX."""

import os
import re
from itertools import product
from pathlib import Path

import pytest

from gradveil.reproduction import published

SMALL = ["mnist", "cifar10", "lfw"]
FIVE = [*SMALL, "adult", "cancer"]
SURFACES = ["0", "1", "2"]
BASIC = ["non-private", "fed-sdp", "fed-cdp", "fed-alpha-cdp"]
CLIENTS, SHARES = ["100", "1000", "10000"], ["5", "10", "20", "50"]
BOUNDS = ["0.1", "0.5", "1", "2", "4", "8", "16", "32"]
DECAYING = ["linear", "staircase", "exponential", "cyclic"]
ACCOUNTANTS = ["base", "advanced", "zcdp", "moments"]
SPOKEN = {
    "mnist": "MNIST",
    "cifar10": "CIFAR10",
    "lfw": "LFW",
    "adult": "Adult",
    "cancer": "Cancer",
    "dlg": "DLG",
    "gradinv": "GradInv",
    "cpl": "CPL",
    "fed-sdp": "Fed-SDP",
    "fed-sdp-client": "Fed-SDP at client",
    "fed-cdp": "Fed-CDP",
    "fed-alpha-cdp": "Fed-alphaCDP",
    "fed-alpha-cdp-sigma": "Fed-alphaCDP[sigma]",
    "quantile": "Quantile",
    "adaclip": "Adaclip",
    "constant": "Fed-alphaCDP fixed sigma",
    "base": "BaseComp",
    "advanced": "AdvComp",
    "zcdp": "zCDP",
    "moments": "MomentsAcc",
} | {policy: f"Fed-alphaCDP[sigma] {policy} sigma" for policy in DECAYING}
"""How the paper spells our keys; a key that is not here is spelt the same."""
WHAT = {
    "training": "# training data",
    "validation": "# validation data",
    "features": "# features",
    "classes": "# classes",
    "client_size": "# data/client",
    "local_steps": "# local iteration L",
    "batch": "local batch size B",
    "rounds": "# rounds T",
    "accuracy": "non-private acc",
    "milliseconds": "non-private cost(ms)",
}
QUALITIES = {"success": "ASR", "rmse": "quality", "iterations": "reconstruction iteration"}
SIGNS = {"resilient": "resilient", "rmse": "ReconDist", "iterations": "tau"}
ASPECTS = {"accuracy": "accuracy", "seconds": "time cost", "resilient": "resilience"}


def spoken(keys):
    return [SPOKEN.get(key, key) for key in keys]


def lower(keys):
    """Two tables write the two last datasets in small letters."""
    return [key if key in ("adult", "cancer") else SPOKEN[key] for key in keys]


def row(printed, *path, over):
    return [printed[*path, key] for key in over]


def blocks(printed, methods, measures, over):
    """Give rows in groups of one method, whose name stands in the first row of the group only."""
    for method in methods:
        for at, (measure, label) in enumerate(measures.items()):
            yield [*([] if at else spoken([method])), label, *row(printed, method, measure, over=over)]


def attack_compare():
    yield spoken(SMALL)
    yield from blocks(published.ATTACK_COMPARISON, ["dlg", "gradinv", "cpl"], QUALITIES, SMALL)


def dataset_setup():
    yield spoken(FIVE)
    for what, label in WHAT.items():
        yield [label, *row(published.DATASETS, what, over=FIVE)]


def attack_evaluation():
    yield ["attack effect", "MNIST", "LFW"]
    yield [*SIGNS.values(), *SIGNS.values()]
    methods = ["non-private", "fed-sdp", "fed-sdp-client", "quantile", "adaclip", "fed-alpha-cdp-sigma"]
    for surface, method in product(SURFACES, methods):
        first = [f"type {surface}"] if method == methods[0] else []
        cells = [published.RESILIENCE[surface, method, *column] for column in product(["mnist", "lfw"], SIGNS)]
        yield [*first, *spoken([method]), *cells]


def kt_vary():
    yield [*(f"N={clients}" for clients in CLIENTS), "cost"]
    yield ["%=K_t/N", *(f"{share}%" for share in SHARES * 3)]
    for method in BASIC:
        cells = [published.POPULATION[method, *column] for column in product(CLIENTS, SHARES)]
        yield [*spoken([method]), *cells, published.POPULATION_COST[(method,)]]


def clipping_l2max():
    yield ["clipping C", *BOUNDS]
    for dataset in FIVE:
        yield [*spoken([dataset]), "non-private", published.CLIPPING[dataset, "non-private", "any"]]
        for method in BASIC[1:]:
            yield [*spoken([method]), *row(published.CLIPPING, dataset, method, over=BOUNDS)]


def privacy_evaluation():
    printed = published.PRIVACY_FIXED
    yield ["epsilon spending: fixed T", *lower(FIVE)]
    yield ["non-private accuracy", *row(printed, "non-private", "accuracy", over=FIVE)]
    yield from blocks(printed, BASIC[1:], {"epsilon": "epsilon", "accuracy": "accuracy"}, FIVE)


def targetacc_changingrounds():
    printed = published.PRIVACY_TARGET
    yield ["epsilon spending: target acc", *lower(FIVE)]
    yield ["target acc", *row(printed, "any", "accuracy", over=FIVE)]
    yield from blocks(printed, ["fed-sdp", "fed-alpha-cdp"], {"rounds": "rounds", "epsilon": "epsilon"}, FIVE)


def epsguidednoisedecay():
    printed, result = published.NOISE_DECAY, {"accuracy": "accuracy", "rounds": "rounds"}
    yield ["accuracy utility: target epsilon", *spoken(FIVE)]
    yield ["non-private accuracy", *row(printed, "non-private", "accuracy", over=FIVE)]
    yield from blocks(printed, ["fed-cdp"], {"epsilon": "target epsilon"} | result, FIVE)
    yield from blocks(printed, ["constant", *DECAYING], result, FIVE)


def timecost():
    yield spoken(FIVE)
    for method in [*BASIC, "fed-alpha-cdp-sigma"]:
        yield [*spoken([method]), *row(published.TIME_COST, method, over=FIVE)]


def adaptive_clipping():
    yield spoken(FIVE)
    for method in ["non-private", "quantile", "adaclip", "fed-alpha-cdp-sigma"]:
        for measure, label in ASPECTS.items():
            first = spoken([method]) if measure == "accuracy" else []
            over = ["any"] if measure == "resilient" else FIVE
            yield [*first, label, *row(published.ADAPTIVE, method, measure, over=over)]


def accounting():
    printed, result = published.ACCOUNTANTS, {"accuracy": "accuracy", "rounds": "rounds"}
    yield ["target epsilon measuring acc", *spoken(ACCOUNTANTS)]
    yield row(printed, "any", "epsilon", over=ACCOUNTANTS)
    yield from blocks(printed, ["fed-cdp", "constant"], result, ["any"])
    yield from blocks(printed, DECAYING, result, ACCOUNTANTS)


TABLES = [
    attack_compare,
    dataset_setup,
    attack_evaluation,
    kt_vary,
    clipping_l2max,
    privacy_evaluation,
    targetacc_changingrounds,
    epsguidednoisedecay,
    timecost,
    adaptive_clipping,
    accounting,
]
"""Each rebuilds from our constants the rows of the table whose label it is named after."""

ARGUMENT = r"\{([^{}]*)\}"
DECORATIONS = [
    (r"~?\\cite\{[^{}]*\}", ""),
    (r"\\hline|\\cline\{[^{}]*\}|\\(scriptsize|footnotesize)\b", ""),
    (r"\\textcolor\{red\}" + ARGUMENT, r"\1"),
    (r"\\textbf" + ARGUMENT, r"\1"),
    (r"\{\\bf ([^{}]*)\}", r"\1"),
    (r"\\rotatebox\{90\}" + ARGUMENT, r"\1"),
    (r"\\multirow\{\d\}\{\*\}" + ARGUMENT, r"\1"),
    (r"\\multicolumn\{\d\}\{[c|]*\}" + ARGUMENT, r"\1"),
    (r"\$\\?([A-Za-z]+)\$", r"\1"),
    (r"\\([#%_])", r"\1"),
]
"""What is taken away, from the inside out, and what stays of it."""


def plain(latex):
    """Strip everything but the words, the figures, and what parts rows and cells."""
    heading = r"\\begin\{tabular\}\[c\]\{@\{\}c@\{\}\}(.*?)\\\\(.*?)\\end\{tabular\}"
    latex = re.sub(heading, r"\1 \2", latex, flags=re.DOTALL)
    before = None
    while before != latex:
        before = latex
        for pattern, stays in DECORATIONS:
            latex = re.sub(pattern, stays, latex)
    return latex


def rows_of(latex):
    """Give the rows of a tabular as lists of the cells that are not empty."""
    rows = [[" ".join(cell.split()) for cell in line.split("&")] for line in plain(latex).split(r"\\")]
    rows = [[re.sub(r"^([\d.]+)s$", r"\1", cell) for cell in row if cell] for row in rows]
    assert not [cell for row in rows for cell in row if re.search(r"[\\{}$~]", cell)], "LaTeX that is not understood"
    return [row for row in rows if row]


def tabulars(paper):
    """Give the inside of every table's tabular, by label."""
    text = re.sub(r"(?<!\\)%.*", "", paper)
    found = {}
    for table in re.findall(r"\\begin\{table\*?\}(.*?)\\end\{table\*?\}", text, flags=re.DOTALL):
        label = re.search(r"\\label\{table:(\w+)\}", table)[1]
        found[label] = re.search(r"\\begin\{tabular\}\{[c|]*\}(.*)\\end\{tabular\}", table, flags=re.DOTALL)[1]
    return found


@pytest.fixture(scope="module")
def printed_tables():
    """The paper's tables; it lies in the folder `paper` beside the one of the real datasets."""
    data = os.environ.get("GRADVEIL_DATA")
    if not data:
        pytest.skip("GRADVEIL_DATA names no folder with the paper beside it")
    paper = Path(data).resolve().parent / "paper" / "fed-alpha-cdp.tex"
    if not paper.is_file():
        pytest.skip(f"the paper is not at {paper}")
    return tabulars(paper.read_text(encoding="utf-8"))


def test_no_table_of_the_paper_is_left_out(printed_tables):
    assert sorted(printed_tables) == sorted(table.__name__ for table in TABLES)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_the_table_is_the_papers(table, printed_tables):
    assert list(table()) == rows_of(printed_tables[table.__name__])


def test_latex_is_read_as_a_reader_would():
    latex = r"""
        \hline \multicolumn{2}{|c|}{\multirow{2}{*}{a \cite{b}}} & 5\% \\ \cline{1-2}
        \multirow{2}{*}{\begin{tabular}[c]{@{}c@{}} A-$\alpha$B \\ fixed $\sigma$ \end{tabular}} & {\bf x[$\sigma$]} &
        \textcolor{red}{N} & \textbf{0.98}  & 0.0230s & 28*28 \\ \hline
    """
    assert rows_of(latex) == [["a", "5%"], ["A-alphaB fixed sigma", "x[sigma]", "N", "0.98", "0.0230", "28*28"]]


def test_unknown_latex_is_not_passed_over():
    with pytest.raises(AssertionError, match="not understood"):
        rows_of(r"a & \strange{1} \\")


def keys(*parts):
    """Give the full product; a part is a list of keys, or one key."""
    return set(product(*([part] if isinstance(part, str) else part for part in parts)))


ADAPTING = ["non-private", "quantile", "adaclip", "fed-alpha-cdp-sigma"]
FULL = {
    "ATTACK_COMPARISON": keys(["dlg", "gradinv", "cpl"], QUALITIES, SMALL),
    "DATASETS": keys(WHAT, FIVE),
    "RESILIENCE": keys(SURFACES, [*ADAPTING, "fed-sdp", "fed-sdp-client"], ["mnist", "lfw"], SIGNS),
    "POPULATION": keys(BASIC, CLIENTS, SHARES),
    "POPULATION_COST": keys(BASIC),
    "CLIPPING": keys(FIVE, BASIC[1:], BOUNDS) | keys(FIVE, "non-private", "any"),
    "PRIVACY_FIXED": keys(BASIC[1:], ["epsilon", "accuracy"], FIVE) | keys("non-private", "accuracy", FIVE),
    "PRIVACY_TARGET": keys(["fed-sdp", "fed-alpha-cdp"], ["rounds", "epsilon"], FIVE) | keys("any", "accuracy", FIVE),
    "NOISE_DECAY": keys(["fed-cdp", "constant", *DECAYING], ["accuracy", "rounds"], FIVE)
    | keys("non-private", "accuracy", FIVE)
    | keys("fed-cdp", "epsilon", FIVE),
    "TIME_COST": keys([*BASIC, "fed-alpha-cdp-sigma"], FIVE),
    "ADAPTIVE": keys(ADAPTING, ["accuracy", "seconds"], FIVE) | keys(ADAPTING, "resilient", "any"),
    "ACCOUNTANTS": keys(DECAYING, ["accuracy", "rounds"], ACCOUNTANTS)
    | keys(["fed-cdp", "constant"], ["accuracy", "rounds"], "any")
    | keys("any", "epsilon", ACCOUNTANTS),
}


def test_every_constant_is_listed_here():
    assert {name for name, value in vars(published).items() if name.isupper() and isinstance(value, dict)} == set(FULL)


@pytest.mark.parametrize("name", FULL)
def test_every_key_has_a_cell_and_no_cell_is_empty(name):
    cells = getattr(published, name)
    assert set(cells) == FULL[name]
    assert all(re.fullmatch(r"[YN]|\d+(\.\d+|(\*\d+)+)?", cell) for cell in cells.values())
