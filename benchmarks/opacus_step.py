"""Time one local step of per-layer clipped DP-SGD by Opacus, on the paper's MNIST network; run by `gradveil bench`.

    python benchmarks/opacus_step.py THREADS

Reads a number of steps a line, takes them with batches of 5, and prints the milliseconds of one.
"""

import sys
import time

import torch
from opacus import GradSampleModule
from opacus.optimizers import DPPerLayerOptimizer
from torch import nn

BATCH, CLIP, SIGMA, RATE, POOL = 5, 4.0, 6.0, 0.05, 500


def network():
    """Give conv 3x3 - ReLU - pool 2 - conv 3x3 - ReLU - pool 2 - dense, no biases."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, bias=False),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, bias=False),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1600, 10, bias=False),
    )


def train(model, optimizer, x, y, steps):
    """Take steps over the pool of examples in its order, `BATCH` at a time."""
    for step in range(steps):
        at = step * BATCH % POOL
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[at : at + BATCH]), y[at : at + BATCH]).backward()
        optimizer.step()


def main():
    """Answer every line of standard input; each starts from the same parameters, as a client does."""
    torch.manual_seed(0)
    torch.set_num_threads(int(sys.argv[1]))
    model = GradSampleModule(network())
    clips = [CLIP] * len(list(model.parameters()))
    optimizer = DPPerLayerOptimizer(
        torch.optim.SGD(model.parameters(), lr=RATE),
        noise_multiplier=SIGMA,
        max_grad_norm=clips,
        expected_batch_size=BATCH,
    )
    start = {name: value.clone() for name, value in model.state_dict().items()}
    x, y = torch.rand(POOL, 1, 28, 28), torch.randint(10, (POOL,))
    for line in sys.stdin:
        model.load_state_dict(start)
        began = time.perf_counter()
        train(model, optimizer, x, y, int(line))
        print((time.perf_counter() - began) * 1e3 / int(line), flush=True)


main()
