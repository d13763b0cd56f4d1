"""Rebuild digits from their gradients by DLG with CPL's start and label, one by one; run by `gradveil bench`.

    python benchmarks/dlg_attack.py THREADS VICTIMS.npz

The file holds x float32 [n, 1, 28, 28] in [0, 1], y int [n], and the ten tensors of the network in PyTorch's layout,
arr_0 to arr_9. Reads "FIRST COUNT" a line, attacks COUNT victims from number FIRST on, and prints one line of
JSON with the seconds and how many were rebuilt.

PyTorch is left without oneDNN, which is made for larger convolutions: its own took half to two thirds of the time here.
"""

import json
import math
import sys
import time

import numpy as np
import torch
from torch import nn

STOP, STEPS, PATIENCE, RMSE = 1e-5, 300, 20, 0.1


class Over(Exception):
    """Leaves the optimizer in the middle of a step: the loss is below STOP, or is no number."""


class Match:
    """The squared distance of a dummy's gradient to the true one, as the closure that LBFGS calls."""

    def __init__(self, model, dummy, label, truth):
        self.model, self.dummy, self.label, self.truth = model, dummy, label, truth
        self.loss = math.inf

    def __call__(self):
        """Give the loss, with its gradient in the dummy; raise Over where nothing is left to do."""
        mine = gradient(self.model, self.dummy, self.label, create_graph=True)
        loss = sum((a - b).square().sum() for a, b in zip(mine, self.truth, strict=True))
        self.loss = loss.item()
        if self.loss < STOP or not math.isfinite(self.loss):
            raise Over
        self.dummy.grad = None
        loss.backward(inputs=[self.dummy])
        return loss


def network(tensors):
    """Give four convolutions 5x5 of 12 channels with sigmoids, then a dense layer, holding these parameters."""
    layers, channels = [], 1
    for stride in (2, 2, 1, 1):
        layers += [nn.Conv2d(channels, 12, 5, stride, padding=2), nn.Sigmoid()]
        channels = 12
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(12 * 7 * 7, 10))
    model.load_state_dict(dict(zip(model.state_dict(), tensors, strict=True)))
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
    """Attack one victim x [1, 1, 28, 28], y [1]; tells whether it was rebuilt."""
    truth = gradient(model, x, y)
    match = Match(model, tiled(number), inferred(truth), truth)
    descend(match)
    error = (match.dummy.detach().clamp(0, 1) - x).square().mean().sqrt().item()
    return error <= RMSE


def main():
    """Answer every line of standard input."""
    torch.set_num_threads(int(sys.argv[1]))
    torch.backends.mkldnn.set_flags(False)
    with np.load(sys.argv[2]) as file:
        given = {name: torch.from_numpy(file[name]) for name in file}
    model = network([given[f"arr_{i}"] for i in range(10)])
    x, y = given["x"], given["y"].long()
    for line in sys.stdin:
        first, count = map(int, line.split())
        began = time.perf_counter()
        rebuilt = [attack(model, x[[n]], y[[n]], n) for n in range(first, first + count)]
        print(json.dumps({"seconds": time.perf_counter() - began, "successes": sum(rebuilt)}), flush=True)


main()
