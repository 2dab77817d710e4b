"""Samples of the families, by name and label: for those who show them to people."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from prometheus_client.core import Metric


class Reading:
    """What all families said at one moment. Whoever asks for a family that isn't there gets
    nothing, and no error: families come and go with versions.
    """

    def __init__(self, families: Iterable[Metric]) -> None:
        self._samples = defaultdict[str, list[tuple[dict[str, str], float]]](list)
        for family in families:
            for sample in family.samples:
                if not sample.name.endswith("_bucket"):
                    self._samples[sample.name].append((sample.labels, sample.value))

    def has(self, sample: str) -> bool:
        return sample in self._samples

    def by(self, sample: str, *labels: str) -> Counter[tuple[str, ...]]:
        """Sums of a sample, such as `chunkside_requests_total`, by the values of some labels."""
        sums: Counter[tuple[str, ...]] = Counter()
        for found, value in self._samples.get(sample, ()):
            sums[tuple(found.get(label, "") for label in labels)] += value  # type: ignore[assignment]
        return sums

    def total(self, sample: str, **wanted: str) -> float:
        """The sum of a sample over all labels but those that are given."""
        return sum(
            value
            for labels, value in self._samples.get(sample, ())
            if all(labels.get(name) == each for name, each in wanted.items())
        )
