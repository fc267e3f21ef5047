"""Which records a prefix lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from actors.spill.catalog import Catalog, Layout
from actors.spill.record import TOKEN, Draft, Kind, Tensor, hashes, record_name


@dataclass(frozen=True, slots=True)
class Slot:
    """A record that is to be made; all of it but the arrays."""

    model: str
    kind: Kind
    start: int
    stop: int
    before: bytes
    after: bytes
    parent: str | None
    tokens: bytes

    @property
    def name(self) -> str:
        return record_name(self.kind, self.start, self.after)

    def filled(self, tensors: Sequence[Tensor], extra: str) -> Draft:
        """The record with its arrays."""
        return Draft(
            self.model,
            self.kind,
            self.start,
            self.stop,
            self.before,
            self.after,
            self.parent,
            self.tokens,
            tuple(tensors),
            extra,
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A prefix that is to be durable."""

    model: str
    """As in `Record`."""
    seed: bytes
    """Of its namespace, see `record.seed`."""
    tokens: bytes
    """Its token ids."""
    ends: tuple[int, ...]
    """Lengths whose states belong to it, its own included; ignored by models without states."""

    def lacks(self, catalog: Catalog, layout: Layout, block: int) -> list[Slot]:
        """What is to be written next, parents first: all missing segments, and once there are none, all states.

        Args:
            catalog: what is durable.
            layout: what the model's prefixes consist of.
            block: tokens of a segment at most.
        """
        segments = self._segments(catalog, block) if layout.segments else []
        return segments or (self._states(catalog, layout) if layout.states else [])

    def missing_tokens(self, catalog: Catalog, layout: Layout) -> int:
        """Tokens that no segment holds."""
        if not layout.segments:
            return 0
        return sum(gap.stop - gap.start for gap in catalog.gaps(self.seed, self.tokens))

    def _segments(self, catalog: Catalog, block: int) -> list[Slot]:
        found: list[Slot] = []
        gaps = catalog.gaps(self.seed, self.tokens)
        cuts = [(at, min(at + block, gap.stop)) for gap in gaps for at in range(gap.start, gap.stop, block)]
        parents = {gap.start: gap.parent for gap in gaps}
        digests = self._digests(position for cut in cuts for position in cut)
        for start, stop in cuts:
            parent = parents[start] if start in parents else found[-1].name
            own = self.tokens[start * TOKEN : stop * TOKEN]
            found.append(Slot(self.model, "segment", start, stop, digests[start], digests[stop], parent, own))
        return found

    def _states(self, catalog: Catalog, layout: Layout) -> list[Slot]:
        found: list[Slot] = []
        digests = self._digests(self.ends)
        for end in sorted(self.ends):
            tokens = self.tokens[: end * TOKEN]
            if catalog.state(self.seed, tokens) is None:
                parent = catalog.holder(self.seed, tokens) if layout.segments else None
                found.append(Slot(self.model, "state", end, end, digests[end], digests[end], parent, b""))
        return found

    def _digests(self, positions: Iterable[int]) -> dict[int, bytes]:
        rising = sorted(set(positions))
        return dict(zip(rising, hashes(self.seed, self.tokens, rising), strict=True))
