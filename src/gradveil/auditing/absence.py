"""A unit that is not there, as neighbors of add-remove differ: not a record of zeros, which a clip may count."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

from gradveil.data.sampling import BatchIndices, Sampling
from gradveil.tree import Array

NOBODY, RECORD, CLIENT = 0, 1, 2
"""Who is gone: nobody, record 0, or all records of the client."""


@dataclass(frozen=True, slots=True, eq=False)
class Without:
    """The batches of a sampling, with the same keys, from which those who are gone are taken out.

    gone: NOBODY, RECORD or CLIENT, and may be traced. The place of a record that is taken out is padding.
    """

    sampling: Sampling
    gone: Array
    name: ClassVar[str] = "without"
    fixed_size: ClassVar[bool] = False

    def period(self, size: int, batch: int) -> int:
        """Return that of the sampling."""
        return self.sampling.period(size, batch)

    def capacities(self, size: int, batch: int) -> tuple[int, ...]:
        """Return those of the sampling."""
        return self.sampling.capacities(size, batch)

    def pick(self, key: Array, step: Array, size: int, batch: int) -> BatchIndices:
        """Return the positions that stay, in their order, and then the others as padding."""
        drawn = self.sampling.pick(key, step, size, batch)
        out = (self.gone == CLIENT) | ((self.gone == RECORD) & (drawn.positions == 0))
        stays = (jnp.arange(drawn.positions.shape[0]) < drawn.real) & ~out
        return BatchIndices(drawn.positions[jnp.argsort(~stays, stable=True)], jnp.sum(stays))

    def check(self, size: int, batch: int) -> None:
        """Refuse what the sampling refuses."""
        self.sampling.check(size, batch)
