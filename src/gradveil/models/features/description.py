"""What features are, as a value: the blocks that they are computed by, and the fixed linear map behind them.

Nothing here depends on a private record: filters and maps come from seeds and from procedural pictures. `origin` says
so in a sentence, which belongs beside every number that was reached with these features.
"""

from dataclasses import dataclass, field

from gradveil.errors import BadInput, quoted
from gradveil.fields import real, settle, whole
from gradveil.models.features.maps import MAPS, FixedMap, GlyphMap, LeafMap, NoMap


@dataclass(frozen=True, slots=True)
class ScatteringBlock:
    """Morlet scattering of `scales` (J) and `angles` (L), group norm, unit norm, cosine transform.

    group: channels that are standardized together. keep: frequencies kept along each axis. mirror: average over the
    picture and its mirror image (approximately: the coarse grid is not symmetric).
    """

    scales: int = 2
    angles: int = 8
    group: int = 3
    keep: int = 5
    mirror: bool = False

    def __post_init__(self) -> None:
        settle(self)
        whole("scales", self.scales, 1, 5)
        whole("angles", self.angles, 2, 32)
        whole("group", self.group)
        whole("keep", self.keep)


@dataclass(frozen=True, slots=True)
class PatchBlock:
    """Filters of `side` x `side` pixels, cut from so many `pictures` of dead leaves, on the picture.

    With `half`, also on the picture at half its size. Responses above `threshold` are averaged over cells x cells
    blocks; see `patches.responses`.
    """

    filters: int = 320
    pictures: int = 800
    side: int = 5
    threshold: float = 0.75
    cells: int = 4
    keep: int = 3
    half: bool = True
    mirror: bool = True

    def __post_init__(self) -> None:
        settle(self)
        whole("filters", self.filters, 1, 4096)
        whole("pictures", self.pictures, 1, 100_000)
        whole("side", self.side, 2, 15)
        real("threshold", self.threshold)
        whole("cells", self.cells, 1, 64)
        whole("keep", self.keep)


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table's row as the dataset encodes it (one-hot, public ranges), clipped to a public norm and divided by it."""

    norm: float = 4.0

    def __post_init__(self) -> None:
        settle(self)
        real("norm", self.norm)


@dataclass(frozen=True, slots=True)
class Features:
    """Blocks side by side, each with the same weight, then a fixed map, then unit norm.

    `seed` draws the dictionary, the procedural pictures and the projection. It is public and is no seed of a run.
    """

    scattering: ScatteringBlock | None = None
    patches: PatchBlock | None = None
    table: TableBlock | None = None
    map: FixedMap = field(default=NoMap(), metadata={"kinds": MAPS})
    seed: int = 0

    def __post_init__(self) -> None:
        settle(self)
        whole("seed", self.seed, 0)
        if self.table is not None and (self.scattering is not None or self.patches is not None):
            raise BadInput("table: a table has no picture to scatter or to cut patches from; give one of them")
        if self.table is None and self.scattering is None and self.patches is None:
            raise BadInput("features: needs scattering, patches or table")
        if self.table is not None and isinstance(self.map, GlyphMap | LeafMap):
            raise BadInput(f"map = {quoted(type(self.map).__name__)}: is fitted to pictures, not to a table")

    @property
    def kind(self) -> str:
        """Name the blocks, such as "scattering + patches"."""
        return " + ".join(name for name in ("scattering", "patches", "table") if getattr(self, name) is not None)

    @property
    def k(self) -> int | None:
        """Numbers an example has, None where no map sets it: then it is `width` of `extract`."""
        return self.map.k

    @property
    def origin(self) -> str:
        """Say in one sentence where filters and map come from."""
        blocks = {
            "scattering": "Morlet scattering, a formula",
            "patches": "filters cut from procedural dead leaves",
            "table": "the row as it is encoded, clipped to a public norm",
        }
        parts = " and ".join(blocks[name] for name in self.kind.split(" + "))
        mapped = f"; then {self.map.words}" if self.map.words else ""
        seeded = f" (seed {self.seed})" if mapped or self.patches else ""
        return f"Features: {parts}{mapped}{seeded}."
