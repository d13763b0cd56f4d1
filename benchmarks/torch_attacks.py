"""Rebuild digits from their gradients in PyTorch, one by one, by CPL, DLG or GradInv; run by `gradveil bench`.

    python benchmarks/torch_attacks.py THREADS ATTACK ITERATIONS VICTIMS.npz

The file holds x float32 [n, 1, 28, 28] in [0, 1], y int [n], and the ten tensors of the network in PyTorch's layout,
arr_0 to arr_9. Reads "FIRST COUNT" a line, attacks COUNT victims from number FIRST on, and prints one line of
JSON with the seconds by the clock and of the processor, and how many were rebuilt.

PyTorch is left without oneDNN, which is made for larger convolutions: its own took half to two thirds of the time here.
"""

import json
import math
import sys
import time

import numpy as np
import torch
from torch import nn

STOP, PATIENCE, RMSE, SMOOTH, RATE = 1e-5, 20, 0.1, 1e-4, 0.1


class Over(Exception):
    """Leaves the optimizer in the middle of a step: the loss is below STOP, or is no number."""


class Match:
    """The squared distance of a dummy's gradient to the true one, as the closure that LBFGS calls.

    target: the label [1], or logits [1, 10] that are optimized with the dummy.
    """

    def __init__(self, model, dummy, target, truth):
        self.model, self.dummy, self.target, self.truth = model, dummy, target, truth
        self.free = [tensor for tensor in (dummy, target) if tensor.requires_grad]
        self.loss = math.inf

    def __call__(self):
        """Give the loss, with its gradient in the dummy; raise Over where nothing is left to do."""
        target = self.target.softmax(1) if self.target.requires_grad else self.target
        mine = gradient(self.model, self.dummy, target, create_graph=True)
        loss = sum((a - b).square().sum() for a, b in zip(mine, self.truth, strict=True))
        self.loss = loss.item()
        if self.loss < STOP or not math.isfinite(self.loss):
            raise Over
        for tensor in self.free:
            tensor.grad = None
        loss.backward(inputs=self.free)
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


def drawn(number):
    """Give the generator of a victim's start."""
    return torch.Generator().manual_seed(number)


def descend(match, iterations):
    """Run LBFGS until the loss is below STOP, is no number, has not fallen for PATIENCE steps, or all are done."""
    optimizer = torch.optim.LBFGS(match.free)
    best, waited = math.inf, 0
    for _ in range(iterations):
        try:
            optimizer.step(match)
        except Over:
            break
        waited = 0 if match.loss < best else waited + 1
        best = min(best, match.loss)
        if waited == PATIENCE:
            break
    return match.dummy.detach()


def cpl(model, truth, number, iterations):
    """Match from a random quarter, repeated 2x2, with the inferred label."""
    start = torch.rand(1, 1, 14, 14, generator=drawn(number)).repeat(1, 1, 2, 2).requires_grad_()
    return descend(Match(model, start, inferred(truth), truth), iterations)


def dlg(model, truth, number, iterations):
    """Match from normal noise, with the label as free as the picture."""
    generator = drawn(number)
    start = torch.randn(1, 1, 28, 28, generator=generator).requires_grad_()
    logits = torch.randn(1, 10, generator=generator).requires_grad_()
    return descend(Match(model, start, logits, truth), iterations)


def gradinv(model, truth, number, iterations):
    """Turn the gradient's direction by Adam on signs, smooth and within [0, 1]; gives the best picture."""
    guess, label = torch.randn(1, 1, 28, 28, generator=drawn(number)).requires_grad_(), inferred(truth)
    optimizer = torch.optim.Adam([guess], lr=RATE)
    falls = [iterations * part // 8 for part in (3, 5, 7)]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, falls, gamma=0.1)
    wanted = torch.cat([g.flatten() for g in truth])
    best, kept = math.inf, guess.detach().clone()
    for _ in range(iterations):
        mine = torch.cat([g.flatten() for g in gradient(model, guess, label, create_graph=True)])
        loss = 1 - nn.functional.cosine_similarity(mine, wanted, dim=0) + SMOOTH * variation(guess)
        if loss.item() < best:
            best, kept = loss.item(), guess.detach().clone()
        (guess.grad,) = torch.autograd.grad(loss, [guess])
        guess.grad.sign_()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            guess.clamp_(0, 1)
    return kept


def variation(x):
    """Give the mean difference of neighboring pixels, down and to the right."""
    return x.diff(dim=2).abs().mean() + x.diff(dim=3).abs().mean()


ATTACKS = {"cpl": cpl, "dlg": dlg, "gradinv": gradinv}


def rebuilds(attack, iterations, model, x, y, number):
    """Attack one victim x [1, 1, 28, 28], y [1]; tells whether it was rebuilt."""
    guess = attack(model, gradient(model, x, y), number, iterations)
    return (guess.clamp(0, 1) - x).square().mean().sqrt().item() <= RMSE


def main():
    """Answer every line of standard input."""
    threads, name, iterations, path = sys.argv[1:]
    torch.set_num_threads(int(threads))
    torch.backends.mkldnn.set_flags(False)
    with np.load(path) as file:
        given = {name: torch.from_numpy(file[name]) for name in file}
    model = network([given[f"arr_{i}"] for i in range(10)])
    x, y = given["x"], given["y"].long()
    for line in sys.stdin:
        first, count = map(int, line.split())
        began, cpu_began = time.perf_counter(), time.process_time()
        rebuilt = [
            rebuilds(ATTACKS[name], int(iterations), model, x[[n]], y[[n]], n) for n in range(first, first + count)
        ]
        spent = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu_began}
        print(json.dumps(spent | {"successes": sum(rebuilt)}), flush=True)


main()
