"""Sparse rows of a row space: the step that takes the gradient of a batch apart.

The gradient of a dense layer is G = X^T D with a row of X [B, inputs] and of D [B, units] for each example. Its row
space is that of D, and the rows of D are the sparsest vectors in it: a ReLU that an example does not activate has
d = 0. B - 1 units that an example leaves inactive determine its row up to scale; they are found by drawing units at
random ("Exact Gradient Inversion of Batches in Federated Learning", Dimitrov et al., 2024).
"""

import numpy as np

from gradveil.attacks.leak import Host

CHUNK = 2048
"""Sets of units that are tried together."""
INDEPENDENT = 0.01
"""The least part of a unit vector that must lie outside the span of those chosen before it."""
REFINEMENTS = 3


def draw(basis: Host, noise: float, random: np.random.Generator) -> Host:
    """Return combinations q [k, B] of the basis [B, units] whose rows q basis are sparse, from one chunk of tries.

    The basis spans the rows of D; noise is the deviation of each of its values.
    """
    if len(basis) == 1:
        return np.ones((1, 1))
    quiet = _quiet(basis)
    drawn = _null_vectors(quiet, random)
    zeros = np.sum(_inactive(drawn @ quiet, noise), axis=1)
    return _refined(basis, drawn[zeros >= 2 * len(basis)], noise)


def sparsest(basis: Host, vectors: Host, noise: float, certain: Host) -> Host:
    """Return at most B independent combinations: all that are certain, then those with the sparsest rows."""
    zeros = np.sum(_inactive(vectors @ basis, noise), axis=1)
    ordered = np.concatenate([certain, vectors[np.argsort(-zeros, kind="stable")]])
    return ordered[_independent(ordered @ basis, len(basis))]


def _quiet(basis: Host) -> Host:
    """Return the half of the columns with the smallest norm, if that is plenty: fewer examples activate them."""
    half = basis.shape[1] // 2
    if half < 6 * len(basis):
        return basis
    return basis[:, np.sort(np.argsort(np.linalg.norm(basis, axis=0), kind="stable")[:half])]


def _null_vectors(basis: Host, random: np.random.Generator) -> Host:
    """Return vectors q [CHUNK, B] of unit length, each orthogonal to B - 1 columns of the basis drawn at random."""
    rank, units = basis.shape
    per_row = units // (rank - 1)
    shuffled = random.permuted(np.tile(np.arange(units), (-(-CHUNK // per_row), 1)), axis=1)
    sets = shuffled[:, : per_row * (rank - 1)].reshape(-1, rank - 1)[:CHUNK]
    systems = np.empty((len(sets), rank, rank))
    systems[:, :-1] = basis.T[sets]
    systems[:, -1] = random.normal(size=rank)
    # Two parallel columns make a system singular; this shift, far below the noise, lets it be solved all the same.
    systems += 1e-12 * np.abs(basis).max() * random.normal(size=(rank, rank))
    right = np.zeros((len(sets), rank, 1))
    right[:, -1] = 1
    solved: Host = np.linalg.solve(systems, right)[..., 0]
    unit: Host = solved / np.linalg.norm(solved, axis=1, keepdims=True)
    return unit


def _inactive(rows: Host, noise: float) -> Host:
    """Say which values of candidate rows count as zero: far below the usual one, or within the noise."""
    usual = np.sqrt(np.mean(np.square(rows), axis=1, keepdims=True))
    zero: Host = np.abs(rows) <= np.maximum(1e-3 * usual, 4 * noise)
    return zero


def _refined(basis: Host, vectors: Host, noise: float) -> Host:
    """Fit each vector to all columns where it is zero, not only to those it was made from."""
    for _ in range(REFINEMENTS):
        inactive = _inactive(vectors @ basis, noise)
        vectors = np.array([_least(basis[:, zero]) for zero in inactive]).reshape(len(vectors), basis.shape[0])
    return vectors


def _least(columns: Host) -> Host:
    """Return the unit vector that is nearest to orthogonal to all columns."""
    vector: Host = np.linalg.eigh(columns @ columns.T)[1][:, 0]
    return vector


def _independent(rows: Host, most: int) -> Host:
    """Return the indices of rows that are not in the span of rows before them, at most `most`."""
    span, chosen = np.zeros((0, rows.shape[1])), list[int]()
    for index, row in enumerate(rows):
        if len(chosen) == most:
            break
        unit = row / max(float(np.linalg.norm(row)), 1e-300)
        rest = unit - (span @ unit) @ span
        size = float(np.linalg.norm(rest))
        if size > INDEPENDENT:
            chosen.append(index)
            span = np.concatenate([span, rest[None] / size])
    return np.array(chosen, np.int64)
