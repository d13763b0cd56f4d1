"""The built-in tables: census rows and cancer measurements as features about one in size, and synthetic clouds."""

import numpy as np

from gradveil.data.dataset import Dataset
from gradveil.data.records import UNCOVERED, Array, Feature, Split
from gradveil.data.split import part, quarter
from gradveil.data.standardizing import STATISTICS_NOTE, moments

SCALED = f"The mean and deviation by which each column is scaled {UNCOVERED}"

# Per numeric column: its index in the row, whether log(1 + v) is taken first, and (v - center) / width.
# The constants are round and public, chosen without the data, so scaling costs no privacy.
_NUMERIC = (
    (0, False, 40.0, 15.0),  # age
    (2, False, 200_000.0, 100_000.0),  # fnlwgt
    (4, False, 10.0, 3.0),  # education-num
    (10, True, 0.0, 5.0),  # capital-gain
    (11, True, 0.0, 5.0),  # capital-loss
    (12, False, 40.0, 10.0),  # hours-per-week
)

# The levels of the published codebook (adult.names), 8+16+7+14+6+5+2+41 = 99; "?" is no level.
_LEVELS: dict[int, str] = {
    1: "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
    3: "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters 1st-4th "
    "10th Doctorate 5th-6th Preschool",
    5: "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse",
    6: "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces",
    7: "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    8: "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    9: "Female Male",
    13: "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan Greece "
    "South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France "
    "Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
    "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands",
}

_NAMES = {
    0: "age",
    1: "workclass",
    2: "fnlwgt",
    3: "education",
    4: "education-num",
    5: "marital-status",
    6: "occupation",
    7: "relationship",
    8: "race",
    9: "sex",
    10: "capital-gain",
    11: "capital-loss",
    12: "hours-per-week",
    13: "native-country",
}


def adult(train_file: bytes, test_file: bytes) -> Dataset:
    """Encode all 48842 rows of both files as 105 features: 6 scaled numbers, then 99 levels as 0 or 1.

    A missing value ("?") is zero in all levels of its column.
    """
    rows = [row for file in (train_file, test_file) for row in _adult_rows(file)]
    x = np.concatenate([_numbers(rows), *(_one_hot(rows, column) for column in _LEVELS)], axis=1)
    y = np.array([row[14].rstrip(".") == ">50K" for row in rows], dtype=np.int32)
    train, test = quarter(y)
    missing = sum("?" in row for row in rows)
    notes = (
        "numbers are scaled by public constants, so scaling costs no privacy",
        f"{missing} of {len(rows)} rows have a missing value, which is zero in all levels of its column",
    )
    splits = part(x, y, train), part(x, y, test)
    return Dataset("adult", splits[0], None, splits[1], ("<=50K", ">50K"), notes=notes, features=_adult_features())


def _adult_features() -> tuple[Feature, ...]:
    """Return the 14 features: 6 numbers, then the levels in the order of their columns."""
    names = [_NAMES[column] for column, *_ in _NUMERIC] + [_NAMES[column] for column in _LEVELS]
    widths = [1] * len(_NUMERIC) + [len(levels.split()) for levels in _LEVELS.values()]
    ends = np.cumsum(widths)
    return tuple(Feature(n, int(e - w), int(e)) for n, w, e in zip(names, widths, ends, strict=True))


def _adult_rows(content: bytes) -> list[list[str]]:
    # adult.test starts with a comment, and both files end in an empty line.
    lines = (line for line in content.decode("ascii").splitlines() if "," in line)
    return [[field.strip() for field in line.split(",")] for line in lines]


def _numbers(rows: list[list[str]]) -> Array:
    columns = []
    for column, logarithm, center, width in _NUMERIC:
        raw = np.array([row[column] for row in rows], dtype=np.float32)
        columns.append(((np.log1p(raw) if logarithm else raw) - center) / width)
    return np.stack(columns, axis=1)


def _one_hot(rows: list[list[str]], column: int) -> Array:
    levels = np.array(_LEVELS[column].split())
    one_hot: Array = (np.array([row[column] for row in rows])[:, None] == levels).astype(np.float32)
    return one_hot


def standardize(x: Array, train: Array) -> Array:
    """Return (x - mean) / deviation with the statistics of the rows `train`, ignoring NaN; a constant column is 0."""
    mean, scale = moments(x[train])
    scaled: Array = (x - mean) / scale
    return scaled


def cancer(outlier: float = 1.0) -> Dataset:
    """Return scikit-learn's 569 x 30 measurements, 426 rows to train on and 143 to test on.

    outlier: by what the numbers of the first training row are multiplied, for audits.
    """
    from sklearn.datasets import load_breast_cancer

    raw = load_breast_cancer()
    train, test = quarter(raw.target)
    measured = raw.data.copy()
    measured[train[0]] *= outlier
    x = standardize(measured, train)
    classes = tuple(str(name) for name in raw.target_names)
    splits = part(x, raw.target, train), part(x, raw.target, test)
    features = tuple(Feature(str(name), i, i + 1) for i, name in enumerate(raw.feature_names))
    notes, caveats = (STATISTICS_NOTE,), (SCALED,)
    return Dataset("cancer", splits[0], None, splits[1], classes, notes=notes, features=features, caveats=caveats)


def synthetic(seed: int) -> Dataset:
    """Draw four unit Gaussian clouds in 20 features from `seed`: 2000 rows to train on and 500 to test on.

    Row = center of its class + N(0, I); centers ~ N(0, 0.81 I). The best possible accuracy is 0.95 to 0.99, by seed.
    """
    rng = np.random.default_rng(seed)
    centers = 0.9 * rng.standard_normal((4, 20))
    y = rng.permutation(np.arange(2500) % 4).astype(np.int32)
    x = (centers[y] + rng.standard_normal((2500, 20))).astype(np.float32)
    classes = tuple(f"cloud {i}" for i in range(4))
    return Dataset("synthetic", Split(x[:2000], y[:2000]), None, Split(x[2000:], y[2000:]), classes)
