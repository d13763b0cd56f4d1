"""Morlet scattering of pictures in up to two orders: local averages of the moduli of wavelet responses.

    S0 = x * phi,  S1[j, t] = |x * psi[j, t]| * phi,  S2[j, t, j', t'] = ||x * psi[j, t]| * psi[j', t']| * phi,  j' > j

psi[j, t] is a Morlet wavelet of scale 2^j at angle t of L, phi a Gaussian of scale 2^(J - 1), and every map is sampled
at steps of 2^J. Filters, padding and the order of channels are those of kymatio (Bruna and Mallat 2013; Andreux et al.
2020), which a test compares with. A wavelet acts in frequency, where sampling at a step is folding; a Gaussian is a
product of two matrices, since it is separable.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from gradveil.models.features.normalize import root
from gradveil.tree import Array

Matrix = np.ndarray[Any, Any]
_PERIODS = range(-2, 3)
"""A filter on a periodic grid is the sum of its copies; beyond two periods nothing is left of it."""


@dataclass(frozen=True, slots=True, eq=False)
class FilterBank:
    """The filters for one size of picture.

    psi[j][r]: spectra [L, M / 2^r, N / 2^r] of the wavelets of scale j on the grid of step 2^r, for r <= j.
    phi[r]: pairs of matrices [m, M / 2^r], [n, N / 2^r] that average and sample. pads: ((top, bottom), (left, right)).
    """

    psi: tuple[tuple[Matrix, ...], ...]
    phi: tuple[tuple[Matrix, Matrix], ...]
    pads: tuple[tuple[int, int], tuple[int, int]]


@lru_cache(maxsize=8)
def filter_bank(height: int, width: int, scales: int, angles: int) -> FilterBank:
    """Make the wavelets and averages for pictures of a size; float32, computed in float64."""
    step = 2**scales
    padded = [((side + step) // step + 1) * step for side in (height, width)]
    extra = [full - side for full, side in zip(padded, (height, width), strict=True)]
    spectra = [np.stack([_morlet(padded, j, angle, angles) for angle in range(angles)]) for j in range(scales)]
    return FilterBank(
        tuple(tuple(_on_grid(spectra[j], r) for r in range(j + 1)) for j in range(scales)),
        tuple((_averages(padded[0], scales, r), _averages(padded[1], scales, r)) for r in range(scales)),
        ((extra[0] // 2, extra[0] - extra[0] // 2), (extra[1] // 2, extra[1] - extra[1] // 2)),
    )


def _morlet(padded: list[int], j: int, angle: int, angles: int) -> Matrix:
    """Return the real spectrum [M, N] of psi(u) = g(u) (exp(i xi . u) - beta), with beta such that its sum is 0."""
    sigma, slant, xi = 0.8 * 2**j, 4 / angles, 0.75 * np.pi / 2**j
    theta = (int(angles - angles / 2 - 1) - angle) * np.pi / angles
    cos, sin = np.cos(theta), np.sin(theta)
    envelope, wave = np.zeros(padded), np.zeros(padded, complex)
    for across in _PERIODS:
        for along in _PERIODS:
            rows, columns = np.mgrid[0 : padded[0], 0 : padded[1]]
            y, x = rows + across * padded[0], columns + along * padded[1]
            main, side = y * cos + x * sin, x * cos - y * sin
            bell = np.exp(-(main**2 + slant**2 * side**2) / (2 * sigma**2))
            envelope += bell
            wave += bell * np.exp(1j * xi * main)
    morlet = (wave - envelope * (wave.sum() / envelope.sum())) * slant / (2 * np.pi * sigma**2)
    spectrum: Matrix = np.fft.fft2(morlet).real
    return spectrum


def _on_grid(spectrum: Matrix, r: int) -> Matrix:
    """Restrict spectra [..., M, N] to the frequencies of the grid of step 2^r: [..., M / 2^r, N / 2^r]."""
    for axis in (-2, -1):
        spectrum = np.take(spectrum, _kept(spectrum.shape[axis], r), axis=axis)
    return spectrum.astype(np.float32)


def _kept(side: int, r: int) -> Matrix:
    """Return the numbers of the lowest side / 2^r frequencies, in the order of a discrete Fourier transform."""
    kept = side // 2**r
    return np.arange(kept) + np.where(np.arange(kept) < kept // 2, 0, side - kept)


def _averages(side: int, scales: int, r: int) -> Matrix:
    """Return phi along one axis, from the grid of step 2^r to that of 2^J without its first and last point: a matrix.

    [side / 2^J - 2, side / 2^r].
    """
    sigma = 0.8 * 2 ** (scales - 1)
    offsets = np.arange(side) + side * np.array(list(_PERIODS))[:, None]
    bell = np.exp(-(offsets**2) / (2 * sigma**2)).sum(axis=0) / (np.sqrt(2 * np.pi) * sigma)
    kernel = np.fft.ifft(np.fft.fft(bell)[_kept(side, r)]).real
    step = 2 ** (scales - r)
    sampled = np.arange(1, side // 2**scales - 1) * step
    matrix: Matrix = kernel[(sampled[:, None] - np.arange(len(kernel))) % len(kernel)].astype(np.float32)
    return matrix


def scatter(x: Array, scales: int = 2, angles: int = 8, order: int = 2) -> Array:
    """Return the scattering of gray pictures: float32 [n, h, w] -> [n, channels, h', w'].

    h' is h / 2^J (rounded down), and with J scales and L angles there are 1 + J L channels in one order, and
    L^2 J (J - 1) / 2 more in two: 81 for J = 2, L = 8. Channels are ordered by order, then scale, then angle.
    """
    bank = filter_bank(x.shape[1], x.shape[2], scales, angles)
    padded = jnp.pad(x, ((0, 0), *bank.pads), mode="reflect")
    zeroth, spectrum = _smooth(padded[:, None], bank, 0), jnp.fft.fft2(padded)
    first, second = [], []
    for j in range(scales):
        moduli = _moduli(spectrum[:, None], bank.psi[j][0], 2**j)
        first.append(_smooth(moduli, bank, j))
        if order == 2 and j + 1 < scales:
            second.append(_second(moduli, j, bank))
    return jnp.concatenate([zeroth, *first, *second], axis=1)


def _second(moduli: Array, j: int, bank: FilterBank) -> Array:
    """Return S2 below the moduli [n, L, m, n] of scale j: [n, L * L * larger scales, h', w']."""
    spectra, n = jnp.fft.fft2(moduli)[:, :, None], len(moduli)
    scales = range(j + 1, len(bank.psi))
    deeper = [_smooth(_moduli(spectra, bank.psi[k][j], 2 ** (k - j)), bank, k) for k in scales]
    maps = jnp.concatenate(deeper, axis=2)
    return maps.reshape(n, -1, *maps.shape[-2:])


def _moduli(spectra: Array, psi: Matrix, step: int) -> Array:
    """Return |u * psi| at every `step`-th point, for spectra [..., 1, M, N] of u and psi [L, M, N]."""
    product = spectra * psi
    rows, columns = (side // step for side in product.shape[-2:])
    folded = product.reshape(*product.shape[:-2], step, rows, step, columns).mean(axis=(-4, -2))
    response = jnp.fft.ifft2(folded)
    return root(jnp.square(response.real) + jnp.square(response.imag))


def _smooth(maps: Array, bank: FilterBank, r: int) -> Array:
    """Return maps * phi at the points of the coarsest grid, for maps on the grid of step 2^r."""
    return jnp.einsum("ah,...hw,bw->...ab", bank.phi[r][0], maps, bank.phi[r][1])


def scatter_picture(x: Array, scales: int = 2, angles: int = 8) -> Array:
    """Return the scattering of pictures in 0 to 1 with one channel or three: [n, h, w, c] -> [n, channels, h', w'].

    A gray picture in two orders; of a color picture the luma in two orders and both chromas in one (115 channels for
    J = 2, L = 8). Pictures of any other number of channels are scattered channel by channel in two orders.
    """
    planes = jnp.moveaxis(x, 3, 0)
    if len(planes) != 3:
        return jnp.concatenate([scatter(plane, scales, angles) for plane in planes], axis=1)
    luma = 0.299 * planes[0] + 0.587 * planes[1] + 0.114 * planes[2]
    chromas = [(plane - luma) / 2 + 0.5 for plane in (planes[2], planes[0])]
    return jnp.concatenate(
        [scatter(luma, scales, angles), *(scatter(plane, scales, angles, order=1) for plane in chromas)], axis=1
    )


@lru_cache(maxsize=8)
def mirrored_channels(channels: int, scales: int, angles: int) -> tuple[int, ...]:
    """Return where each channel of `scatter_picture` is found when the picture is mirrored: angles change sign."""
    flipped = [(2 * int(angles - angles / 2 - 1) - angle) % angles for angle in range(angles)]
    labels: list[tuple[int, ...]] = []
    for order in (2, 1, 1) if channels == 3 else (2,) * channels:
        labels += _labels(len(labels), scales, angles, order)
    place = {label: i for i, label in enumerate(labels)}
    return tuple(place[(p, *((j if i % 2 == 0 else flipped[j]) for i, j in enumerate(path)))] for p, *path in labels)


def _labels(plane: int, scales: int, angles: int, order: int) -> list[tuple[int, ...]]:
    """Return (plane, scale, angle, scale, angle) of every channel, in the order of `scatter`."""
    one = [(plane, j, t) for j in range(scales) for t in range(angles)]
    two = [(*path, j, t) for path in one for j in range(path[1] + 1, scales) for t in range(angles)]
    return [(plane,), *one, *(two if order == 2 else [])]
