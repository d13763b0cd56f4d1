"""What is kept of an attack: its record, what it has to show for its owner alone, and a gallery of pictures."""

from dataclasses import dataclass
from pathlib import Path

from gradveil.leakage.attack_run import Outcome
from gradveil.leakage.scenes import Scene
from gradveil.reports.exhibits import exhibit_of, gallery_of
from gradveil.runs import store


@dataclass(frozen=True, slots=True)
class Saved:
    """Where the record and the gallery went; there is no gallery of table rows or of one's own data."""

    record: Path
    gallery: Path | None


def save(outcome: Outcome, scene: Scene, folder: Path, keep_truth: bool = False) -> Saved:
    """Write the record, what the attack has to show for its owner alone, and the gallery of built-in pictures.

    Of one's own data, what the attack shows (true records beside their copies) is only written with `keep_truth`. The
    name ends in the digest of all settings, so that only the very same attack overwrites a record.
    """
    r = outcome.record
    name = f"{Path(r.dataset).stem[:60]}-{r.method[:60]}-{r.surface}-{r.view}-{r.attack}-round{r.round}"
    name = f"{name.replace('/', '_')}-{r.settings_sha256[:12]}"
    record, picture = folder / f"{name}.json", folder / f"{name}.png"
    store.write_record(record, r)
    if r.membership is not None:  # nothing was rebuilt, so there is nothing to show
        return Saved(record, None)
    if keep_truth or not scene.dataset.own:
        exhibit_of(outcome).save(folder / f"{name}.npz")
    if not scene.dataset.is_image or scene.dataset.own:
        return Saved(record, None)
    store.write(picture, gallery_of(outcome))
    return Saved(record, picture)
