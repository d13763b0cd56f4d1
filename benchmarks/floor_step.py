"""Time only the matrix products of one local step, by NumPy; run by `gradveil bench`, one process a core at once.

    OPENBLAS_NUM_THREADS=1 python benchmarks/floor_step.py 1 DATASET BATCH

Reads a number of steps a line, takes them, and prints the milliseconds of one by the clock and by the processor. The
step is forward and backward, with a weight gradient of every example in convolutions and of the batch in dense layers;
places that an odd pool drops are left out. No faster step does the same sums by this BLAS.
"""

import sys
import time

import numpy as np

# Of each layer: the rows an example has, the inputs of a row, the outputs of a row.
LAYERS = {
    "mnist": ((24 * 24, 9, 32), (10 * 10, 288, 64), (1, 1600, 10)),
    "cifar10": ((28 * 28, 27, 32), (12 * 12, 288, 64), (1, 2304, 10)),
    "lfw": ((28 * 28, 27, 32), (12 * 12, 288, 64), (1, 2304, 62)),
    "adult": ((1, 105, 600), (1, 600, 100), (1, 100, 2)),
}


def products(layers, batch):
    """List (left, right, out): the outputs, the weight gradients, all input gradients but the first."""
    random = np.random.default_rng(0)
    for number, (rows, inputs, outputs) in enumerate(layers):
        x = random.standard_normal((batch, rows, inputs), np.float32)
        y = random.standard_normal((batch, rows, outputs), np.float32)
        w = random.standard_normal((inputs, outputs), np.float32)
        flat_x, flat_y = x.reshape(-1, inputs), y.reshape(-1, outputs)
        yield flat_x, w, np.empty_like(flat_y)
        if rows == 1:
            yield flat_x.T, flat_y, np.empty((inputs, outputs), np.float32)
        else:
            yield x.transpose(0, 2, 1), y, np.empty((batch, inputs, outputs), np.float32)
        if number:
            yield flat_y, w.T, np.empty_like(flat_x)


def main():
    """Answer every line of standard input."""
    step = list(products(LAYERS[sys.argv[2]], int(sys.argv[3])))
    for line in sys.stdin:
        began, used = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            for left, right, out in step:
                np.matmul(left, right, out=out)
        passed = time.perf_counter() - began, time.process_time() - used
        print(*(1e3 * seconds / int(line) for seconds in passed), flush=True)


main()
