"""A model written in torch, trained on digits: a class whose weights are drawn when training starts.

Needs `pip install gradveil[torch]`. Pictures come with the channels first, as torch has them. A module that has weights
already can be given too, and training starts with those.
"""

import torch

import gradveil


class Small(torch.nn.Sequential):
    """Convolution, group norm and a dense layer, for pictures of 8 x 8 pixels and ten classes."""

    def __init__(self) -> None:
        super().__init__(
            torch.nn.Conv2d(1, 8, 3, stride=2),
            torch.nn.ReLU(),
            torch.nn.GroupNorm(2, 8),
            torch.nn.Flatten(),
            torch.nn.Linear(72, 10),
        )


def main() -> float:
    """Train and score; returns the accuracy on the test split."""
    digits = gradveil.dataset("digits")
    model = gradveil.train(gradveil.plan("digits", "fed-cdp", model=Small, rounds=40, lr=0.7, seed=1))
    print(model)
    return model.evaluate(digits.test.x, digits.test.y).accuracy or 0.0


if __name__ == "__main__":
    main()
