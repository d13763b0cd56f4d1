"""Time only the matrix products of one local step, by NumPy; run by `gradveil bench`, one process a core at once.

    OPENBLAS_NUM_THREADS=1 python benchmarks/floor_step.py

Reads a number of steps a line, takes them, and prints the milliseconds of one. The step is the paper's MNIST network,
B = 5, forward and backward, with a weight gradient of every example: no faster step does the same sums by this BLAS.
"""

import sys
import time

import numpy as np

BATCH = 5
# Of each layer: the rows an example has, the inputs of a row, the outputs of a row.
LAYERS = ((26 * 26, 9, 32), (11 * 11, 288, 64), (1, 1600, 10))


def products():
    """List (left, right, out): the outputs, every example's weight gradient, all input gradients but the first."""
    random = np.random.default_rng(0)
    for number, (rows, inputs, outputs) in enumerate(LAYERS):
        x = random.standard_normal((BATCH, rows, inputs), np.float32)
        y = random.standard_normal((BATCH, rows, outputs), np.float32)
        w = random.standard_normal((inputs, outputs), np.float32)
        flat_x, flat_y = x.reshape(-1, inputs), y.reshape(-1, outputs)
        yield flat_x, w, np.empty_like(flat_y)
        yield x.transpose(0, 2, 1), y, np.empty((BATCH, inputs, outputs), np.float32)
        if number:
            yield flat_y, w.T, np.empty_like(flat_x)


def main():
    """Answer every line of standard input."""
    step = list(products())
    for line in sys.stdin:
        began = time.perf_counter()
        for _ in range(int(line)):
            for left, right, out in step:
                np.matmul(left, right, out=out)
        print((time.perf_counter() - began) * 1e3 / int(line), flush=True)


main()
