"""Which records there are, what prefix they give, and what is missing of one. Pure.

The writer has a catalog of its whole directory, each scheduler one of its own model's records, so that a lookup is
no message.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from actors.spill.record import TOKEN, Record, common, hashes


@dataclass(frozen=True, slots=True)
class Layout:
    """What a whole prefix of a model consists of."""

    segments: bool
    """Some layers keep keys and values of every token."""
    states: bool
    """Some layers keep what is good at one length only."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a prefix and the record that gives it."""

    record: Record
    start: int
    """First token taken; the record's own start, or later where pieces overlap."""
    stop: int
    """Behind the last one taken."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """The longest usable prefix."""

    length: int
    """Tokens; 0 when there is none."""
    pieces: tuple[Piece, ...] = ()
    """Segments without gaps from token 0 to `length`; empty for models without any."""
    state: Record | None = None
    """State at exactly `length`, for models that have one."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every record it needs."""
        own = () if self.state is None else (self.state.name,)
        return (*(piece.record.name for piece in self.pieces), *own)


@dataclass(frozen=True, slots=True)
class Gap:
    """Tokens of a prefix that no segment holds."""

    start: int
    stop: int
    parent: str | None
    """The segment that ends at `start` or reaches over it."""


class Catalog:
    """Records by name and by place."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records: dict[str, Record] = {}
        self._segments: defaultdict[tuple[int, bytes], dict[str, Record]] = defaultdict(dict)
        self._states: dict[tuple[int, bytes], Record] = {}
        self._notes: defaultdict[bytes, dict[str, Record]] = defaultdict(dict)
        self._starts = _Positions()
        self._ends = _Positions()
        self._children: defaultdict[str, set[str]] = defaultdict(set)
        self._size = 0
        for record in records:
            self.add(record)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    def __contains__(self, name: str) -> bool:
        return name in self._records

    def get(self, name: str) -> Record | None:
        return self._records.get(name)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return self._size

    def children(self, name: str) -> set[str]:
        """Records that hang on this one."""
        return self._children.get(name, set())

    def add(self, record: Record) -> None:
        """Take a record in; a known one with its name is replaced."""
        self.discard(record.name)
        self._records[record.name] = record
        self._size += record.size
        if record.parent is not None:
            self._children[record.parent].add(record.name)
        if record.kind == "segment":
            self._segments[record.start, record.before][record.name] = record
            self._starts.add(record.start)
        elif record.kind == "state":
            self._states[record.stop, record.after] = record
            self._ends.add(record.stop)
        else:
            self._notes[record.after][record.name] = record

    def discard(self, name: str) -> Record | None:
        """Forget a record. What hangs on it stays, unreachable until the record is there again."""
        record = self._records.pop(name, None)
        if record is None:
            return None
        self._size -= record.size
        if record.parent is not None:
            siblings = self._children[record.parent]
            siblings.discard(name)
            if not siblings:
                del self._children[record.parent]
        if record.kind == "segment":
            place = record.start, record.before
            del self._segments[place][name]
            if not self._segments[place]:
                del self._segments[place]
            self._starts.remove(record.start)
        elif record.kind == "state":
            del self._states[record.stop, record.after]
            self._ends.remove(record.stop)
        else:
            del self._notes[record.after][record.name]
            if not self._notes[record.after]:
                del self._notes[record.after]
        return record

    def longest(self, seed: bytes, tokens: bytes, limit: int, layout: Layout) -> Prefix:
        """The longest prefix of at most `limit` tokens that is whole."""
        pieces: list[Piece] = []
        if layout.segments:
            pieces = _cover(self._matching(seed, tokens, gaps=False))
            limit = min(limit, pieces[-1].stop if pieces else 0)
        if not layout.states:
            return Prefix(limit, tuple(_cut(pieces, limit))) if limit > 0 else Prefix(0)
        ends = [end for end in self._ends.upto(limit) if end > 0]
        for end, digest in reversed(list(zip(ends, hashes(seed, tokens, ends), strict=True))):
            if (state := self._states.get((end, digest))) is not None:
                return Prefix(end, tuple(_cut(pieces, end)), state)
        return Prefix(0)

    def gaps(self, seed: bytes, tokens: bytes) -> list[Gap]:
        """What no segment holds of a prefix, in order."""
        found: list[Gap] = []
        reach, last = 0, None
        for piece in sorted(self._matching(seed, tokens, gaps=True), key=lambda piece: (piece.start, -piece.stop)):
            if piece.start > reach:
                found.append(Gap(reach, piece.start, last))
            if piece.stop > reach:
                reach, last = piece.stop, piece.record.name
        if reach < (length := len(tokens) // TOKEN):
            found.append(Gap(reach, length, last))
        return found

    def holder(self, seed: bytes, tokens: bytes) -> str | None:
        """The segment that holds the last of the tokens; None when there is a gap before it."""
        cover = _cover(self._matching(seed, tokens, gaps=False))
        return cover[-1].record.name if cover and cover[-1].stop * TOKEN >= len(tokens) else None

    def state(self, seed: bytes, tokens: bytes) -> Record | None:
        """The state after exactly these tokens."""
        length = len(tokens) // TOKEN
        return self._states.get((length, next(hashes(seed, tokens, [length]))))

    def note(self, key: bytes) -> Record | None:
        """The newest note under a key."""
        return max(self._notes.get(key, {}).values(), key=lambda note: note.start, default=None)

    def notes(self) -> list[Record]:
        """All notes."""
        return [note for notes in self._notes.values() for note in notes.values()]

    def reachable(self) -> set[str]:
        """Records that no gap separates from their beginning."""
        found = {
            record.name for record in self if record.parent is None and (record.start == 0 or record.kind != "segment")
        }
        rest = list(found)
        while rest:
            for child in self._children.get(rest.pop(), ()):
                if child not in found:
                    found.add(child)
                    rest.append(child)
        return found

    def longest_tokens(self) -> int:
        """Length of the longest prefix of all, by what is reachable."""
        states = {record.model for record in self if record.kind == "state"}
        lengths = (
            record.stop
            for name in self.reachable()
            if (record := self._records[name]).kind == "state"
            or (record.kind == "segment" and record.model not in states)
        )
        return max(lengths, default=0)

    def _matching(self, seed: bytes, tokens: bytes, gaps: bool) -> list[Piece]:
        """Segments that agree with the tokens for a while, by rising start; without `gaps` up to the first one."""
        found: list[Piece] = []
        length, reach = len(tokens) // TOKEN, 0
        starts = self._starts.upto(length - 1)
        for start, digest in zip(starts, hashes(seed, tokens, starts), strict=True):
            if start > reach and not gaps:
                break
            for record in self._segments.get((start, digest), {}).values():
                shared = common(record.tokens, tokens[start * TOKEN : record.stop * TOKEN])
                if shared:
                    found.append(Piece(record, start, start + shared))
                    reach = max(reach, start + shared)
        return found


def _cover(pieces: list[Piece]) -> list[Piece]:
    """The fewest pieces that cover as much as all of them without a gap from 0; they do not overlap."""
    chosen: list[Piece] = []
    reach, index = 0, 0
    while True:
        best: Piece | None = None
        while index < len(pieces) and pieces[index].start <= reach:
            if best is None or pieces[index].stop > best.stop:
                best = pieces[index]
            index += 1
        if best is None or best.stop <= reach:
            return chosen
        chosen.append(Piece(best.record, reach, best.stop))
        reach = best.stop


def _cut(pieces: list[Piece], length: int) -> list[Piece]:
    return [Piece(piece.record, piece.start, min(piece.stop, length)) for piece in pieces if piece.start < length]


class _Positions:
    """Distinct positions in order, each with how often it occurs."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._sorted: list[int] = []

    def add(self, position: int) -> None:
        if position not in self._counts:
            insort(self._sorted, position)
            self._counts[position] = 0
        self._counts[position] += 1

    def remove(self, position: int) -> None:
        self._counts[position] -= 1
        if not self._counts[position]:
            del self._counts[position]
            del self._sorted[bisect_left(self._sorted, position)]

    def upto(self, limit: int) -> list[int]:
        """Those that are `limit` at most."""
        return self._sorted[: bisect_left(self._sorted, limit + 1)]
