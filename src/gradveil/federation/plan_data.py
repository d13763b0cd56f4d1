"""The data as a plan's model reads them: the features of the examples, where the plan names some."""

from collections.abc import Callable
from dataclasses import replace

from gradveil import codec
from gradveil.data.dataset import Dataset, Split
from gradveil.federation.plan import Plan
from gradveil.models.features.feature_cache import cached_features


def data_for(plan: Plan, dataset: Dataset, progress: Callable[[float], None] = lambda share: None) -> Dataset:
    """Return the dataset with the plan's features in place of its examples, [n, ...] -> float32 [n, k].

    Features of an example depend on nothing but the example, so no epsilon is spent. They are computed once and kept in
    the cache; `progress` is called with the share of a split that is done. A dataset that has them stays as it is.
    """
    features = plan.features
    if features is None or dataset.features_sha256 == (name := codec.digest(features)):
        return dataset

    def split(examples: Split) -> Split:
        return Split(cached_features(features, examples.x, progress), examples.y)

    return replace(
        dataset,
        train=split(dataset.train),
        validation=None if dataset.validation is None else split(dataset.validation),
        test=split(dataset.test),
        notes=(*dataset.notes, features.origin),
        features=dataset.features if features.k is None else (),  # a map mixes the columns of a table
        features_sha256=name,
    )
