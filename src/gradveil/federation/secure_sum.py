"""How a plan's sums are made if no server may see what single nodes add: how many nodes, and how many may collude."""

from dataclasses import dataclass

from gradveil.errors import BadInput
from gradveil.fields import settle, whole

LEAST_HONEST = 2
"""Nodes of a sum that do not collude; the sum over one alone would be that node's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecureSum:
    """Nodes add their records' sums up under masks, and each draws a part of the noise.

    nodes: n; clients are dealt over them, client i to node i mod n. tolerated: t, nodes that may tell the server all
    they know, by default a third of the others, at least one. minimum_nodes: the fewest of a sum, by default two thirds
    of n. Among r nodes of a sum each draws sigma S / sqrt(r - t), so that sigma S stays whatever t of them subtract.
    """

    nodes: int
    tolerated: int | None = None
    minimum_nodes: int | None = None

    def __post_init__(self) -> None:
        settle(self)
        whole("nodes", self.nodes, 1 + LEAST_HONEST)
        if not 1 <= self.colluders <= self.nodes - LEAST_HONEST:
            raise BadInput(
                f"tolerated = {self.tolerated}: must be at least 1, since every node knows its own noise, and at most "
                f"{self.nodes - LEAST_HONEST} of {self.nodes} nodes"
            )
        least = self.colluders + LEAST_HONEST
        if not least <= self.fewest <= self.nodes:
            raise BadInput(
                f"minimum_nodes = {self.minimum_nodes}: must be at least {least}, the tolerated and {LEAST_HONEST} "
                f"more, and at most nodes = {self.nodes}"
            )

    @property
    def colluders(self) -> int:
        """Return t, given or by default."""
        return max(1, (self.nodes - 1) // 3) if self.tolerated is None else self.tolerated

    @property
    def fewest(self) -> int:
        """Return the least r, given or by default."""
        if self.minimum_nodes is not None:
            return self.minimum_nodes
        return max(self.colluders + LEAST_HONEST, -(-2 * self.nodes // 3))

    @property
    def honest(self) -> int:
        """Return n - t, the nodes whose noise stays if all take part."""
        return self.nodes - self.colluders
