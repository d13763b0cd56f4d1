"""Rebuild digits from their gradients by DLG with CPL's start and label, one by one; run by `gradveil bench`.

    python benchmarks/dlg_attack.py THREADS IMAGES.npz

The file holds x float32 [n, 28, 28, 1] in [0, 1] and y int [n]. Reads "FIRST COUNT" a line, attacks COUNT victims from
number FIRST on (image: number modulo n), and prints one line of JSON with the seconds and what came of them.
"""

import json
import math
import sys
import time

import numpy as np
import torch
from torch import nn

STOP, STEPS, PATIENCE, RANGE, RMSE = 1e-5, 300, 20, 0.5, 0.1


class Over(Exception):
    """Leaves the optimiser in the middle of a step: the loss is below STOP, or is no number."""


class Match:
    """The squared distance of a dummy's gradient to the true one, as the closure that LBFGS calls."""

    def __init__(self, model, dummy, label, truth):
        self.model, self.dummy, self.label, self.truth = model, dummy, label, truth
        self.loss, self.evaluations = math.inf, 0

    def __call__(self):
        """Give the loss, with its gradient in the dummy; raise Over where nothing is left to do."""
        mine = gradient(self.model, self.dummy, self.label, create_graph=True)
        loss = sum((a - b).square().sum() for a, b in zip(mine, self.truth, strict=True))
        self.loss = loss.item()
        self.evaluations += 1
        if self.loss < STOP or not math.isfinite(self.loss):
            raise Over
        self.dummy.grad = None
        loss.backward(inputs=[self.dummy])
        return loss


def network():
    """Give four convolutions 5x5 of 12 channels with sigmoids, then a dense layer; all values from U(-RANGE, RANGE)."""
    layers, channels = [], 1
    for stride in (2, 2, 1, 1):
        layers += [nn.Conv2d(channels, 12, 5, stride, padding=2), nn.Sigmoid()]
        channels = 12
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(12 * 7 * 7, 10))
    torch.manual_seed(0)
    for values in model.parameters():
        nn.init.uniform_(values, -RANGE, RANGE)
    return model


def gradient(model, x, y, create_graph=False):
    """Give the gradient of the cross-entropy, a tensor for each parameter."""
    loss = nn.functional.cross_entropy(model(x), y)
    return torch.autograd.grad(loss, list(model.parameters()), create_graph=create_graph)


def inferred(truth):
    """Give the label [1]: sigmoids are positive, so only the true class has a negative row of last weights."""
    return truth[-2].sum(1).argmin().reshape(1)


def tiled(number):
    """Give the start [1, 1, 28, 28] of a victim: a random quarter, repeated 2x2."""
    quarter = torch.rand(1, 1, 14, 14, generator=torch.Generator().manual_seed(number))
    return quarter.repeat(1, 1, 2, 2).requires_grad_()


def descend(match):
    """Run LBFGS until the loss is below STOP, is no number, has not fallen for PATIENCE steps, or STEPS are over."""
    optimizer = torch.optim.LBFGS([match.dummy])
    best, waited = math.inf, 0
    for _ in range(STEPS):
        try:
            optimizer.step(match)
        except Over:
            return
        waited = 0 if match.loss < best else waited + 1
        best = min(best, match.loss)
        if waited == PATIENCE:
            return


def attack(model, x, y, number):
    """Attack one victim x [1, 1, 28, 28], y [1]; gives (reached, success, evaluations)."""
    truth = gradient(model, x, y)
    match = Match(model, tiled(number), inferred(truth), truth)
    descend(match)
    error = (match.dummy.detach().clamp(0, 1) - x).square().mean().sqrt().item()
    return match.loss < STOP, error <= RMSE, match.evaluations


def main():
    """Answer every line of standard input."""
    torch.set_num_threads(int(sys.argv[1]))
    model = network()
    with np.load(sys.argv[2]) as images:
        x, y = torch.from_numpy(images["x"]).permute(0, 3, 1, 2), torch.from_numpy(images["y"]).long()
    for line in sys.stdin:
        first, count = map(int, line.split())
        began = time.perf_counter()
        outcomes = [attack(model, x[[n % len(x)]], y[[n % len(x)]], n) for n in range(first, first + count)]
        seconds = time.perf_counter() - began
        totals = [sum(column) for column in zip(*outcomes, strict=True)]
        names = ("reached", "successes", "evaluations")
        answer = {"seconds": seconds, "victims": count} | dict(zip(names, totals, strict=True))
        print(json.dumps(answer), flush=True)


main()
