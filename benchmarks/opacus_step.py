"""Time one local step of DP-SGD by Opacus, on the paper's networks; run by `gradveil bench`.

    python benchmarks/opacus_step.py THREADS DATASET BATCH WAY

WAY is per-layer (the gradients of every example, clipped layer by layer, as gradveil does), or ghost or fast: Opacus's
clipping of whole gradients by two backward passes, for large batches, with norms by ghost clipping or of gradients made
one layer at a time. Reads a number of steps a line, takes them, and prints the milliseconds of one by the clock and by
the processor.
"""

import sys
import time
import warnings
from itertools import pairwise

import torch
from opacus import GradSampleModule
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizerFastGradientClipping, DPPerLayerOptimizer
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import nn

CLIP, SIGMA, RATE, POOL = 4.0, 6.0, 0.05, 500
PICTURES = {"mnist": (1, 28, 1600, 10), "cifar10": (3, 32, 2304, 10), "lfw": (3, 32, 2304, 62)}
"""Channels, side, inputs of the dense layer, classes."""


def network(dataset):
    """Give conv 3x3 - ReLU - pool 2 - conv 3x3 - ReLU - pool 2 - dense, or three dense layers for Adult; no biases."""
    if dataset == "adult":
        sizes = (105, 600, 100, 2)
        dense = [nn.Linear(i, o, bias=False) for i, o in pairwise(sizes)]
        return nn.Sequential(dense[0], nn.ReLU(), dense[1], nn.ReLU(), dense[2])
    channels, _, flat, classes = PICTURES[dataset]
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, bias=False),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, bias=False),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(flat, classes, bias=False),
    )


def examples(dataset, batch):
    """Make up a pool that holds at least one batch."""
    count = max(POOL, batch)
    if dataset == "adult":
        return torch.randn(count, 105), torch.randint(2, (count,))
    channels, side, _, classes = PICTURES[dataset]
    return torch.rand(count, channels, side, side), torch.randint(classes, (count,))


def protected(model, batch, way):
    """Give the model with gradients by example, its optimizer, and the loss."""
    settings = {"noise_multiplier": SIGMA, "expected_batch_size": batch}
    if way == "per-layer":
        model = GradSampleModule(model)
        clips = [CLIP] * len(list(model.parameters()))
        plain = torch.optim.SGD(model.parameters(), lr=RATE)
        return model, DPPerLayerOptimizer(plain, max_grad_norm=clips, **settings), nn.CrossEntropyLoss()
    model = GradSampleModuleFastGradientClipping(
        model, max_grad_norm=CLIP, use_ghost_clipping=way == "ghost", loss_reduction="mean"
    )
    plain = torch.optim.SGD(model.parameters(), lr=RATE)
    optimizer = DPOptimizerFastGradientClipping(plain, max_grad_norm=CLIP, **settings)
    return model, optimizer, DPLossFastGradientClipping(model, optimizer, nn.CrossEntropyLoss(), loss_reduction="mean")


def train(parts, x, y, batch, steps):
    """Take steps over the pool of examples in its order."""
    model, optimizer, loss = parts
    for step in range(steps):
        at = step * batch % (len(y) - batch + 1)
        optimizer.zero_grad()
        loss(model(x[at : at + batch]), y[at : at + batch]).backward()
        optimizer.step()


def main():
    """Answer every line of standard input; each starts from the same parameters, as a client does."""
    warnings.simplefilter("ignore")
    threads, dataset, batch, way = sys.argv[1:]
    torch.manual_seed(0)
    torch.set_num_threads(int(threads))
    parts = protected(network(dataset), int(batch), way)
    start = {name: value.clone() for name, value in parts[0].state_dict().items()}
    x, y = examples(dataset, int(batch))
    for line in sys.stdin:
        parts[0].load_state_dict(start)
        began, used = time.perf_counter(), time.process_time()
        train(parts, x, y, int(batch), int(line))
        passed = time.perf_counter() - began, time.process_time() - used
        print(*(1e3 * seconds / int(line) for seconds in passed), flush=True)


main()
