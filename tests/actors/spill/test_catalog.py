"""What records give, against a plain model: a set of prefixes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.spill.catalog import Catalog, Layout
from actors.spill.record import TOKEN, Draft, Record, seed
from tests.support.records import MODEL, SEED, pack, segment, segments, state

KV = Layout(segments=True, states=False)
HYBRID = Layout(segments=True, states=True)
STATES = Layout(segments=False, states=True)

token_lists = st.lists(st.integers(0, 2), min_size=1, max_size=40)


def record(draft: Draft) -> Record:
    return Record(
        draft.name, draft.model, draft.kind, draft.start, draft.stop, draft.before, draft.after, draft.parent,
        draft.tokens, 100,
    )  # fmt: skip


def store(catalog: Catalog, tokens: list[int], block: int = 8, namespace: bytes = SEED) -> list[Draft]:
    drafts = segments(catalog, pack(tokens), block, namespace)
    for draft in drafts:
        catalog.add(record(draft))
    return drafts


def shared(left: list[int], right: list[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


@given(st.lists(token_lists, max_size=8), token_lists, st.integers(1, 10))
@settings(max_examples=300)
def test_segments_give_the_longest_prefix_of_all_that_was_stored(
    stored: list[list[int]], asked: list[int], block: int
) -> None:
    catalog = Catalog()
    for tokens in stored:
        store(catalog, tokens, block)
    prefix = catalog.longest(SEED, pack(asked), len(asked) - 1, KV)
    best = max((shared(tokens, asked) for tokens in stored), default=0)
    assert prefix.length == min(best, len(asked) - 1)
    position = 0
    for piece in prefix.pieces:
        assert piece.start == position
        assert piece.record.start <= piece.start < piece.stop <= piece.record.stop
        taken = piece.record.tokens[: (piece.stop - piece.record.start) * TOKEN]
        assert taken == pack(asked)[piece.record.start * TOKEN : piece.stop * TOKEN]
        position = piece.stop
    assert position == prefix.length


@given(st.lists(token_lists, min_size=1, max_size=8), st.integers(1, 10))
def test_a_stored_prefix_lacks_nothing_and_no_token_is_stored_twice(stored: list[list[int]], block: int) -> None:
    catalog = Catalog()
    known: set[tuple[int, ...]] = set()
    for tokens in stored:
        drafts = store(catalog, tokens, block)
        fresh = {tuple(tokens[: i + 1]) for i in range(len(tokens))} - known
        assert sum(draft.stop - draft.start for draft in drafts) == len(fresh)
        known |= fresh
        assert catalog.gaps(SEED, pack(tokens)) == []
        assert catalog.holder(SEED, pack(tokens)) is not None
    assert catalog.longest_tokens() == max(map(len, stored))
    assert catalog.reachable() == {one.name for one in catalog}


@given(st.lists(token_lists, min_size=1, max_size=6), st.data())
def test_a_hole_ends_the_prefix_and_filling_it_brings_back_what_followed(
    stored: list[list[int]], data: st.DataObject
) -> None:
    catalog = Catalog()
    for tokens in stored:
        store(catalog, tokens, 4)
    lost = data.draw(st.sampled_from(sorted(catalog, key=lambda one: one.name)))
    catalog.discard(lost.name)
    for tokens in stored:
        packed = pack(tokens)
        prefix = catalog.longest(SEED, packed, len(tokens), KV)
        gaps = catalog.gaps(SEED, packed)
        assert prefix.length == (gaps[0].start if gaps else len(tokens))
        assert all(piece.record.name != lost.name for piece in prefix.pieces)
    for tokens in stored:
        packed = pack(tokens)
        store(catalog, tokens, 4)
        assert catalog.longest(SEED, packed, len(tokens), KV).length == len(tokens)


@given(st.lists(token_lists, min_size=1, max_size=6), token_lists)
def test_a_state_serves_at_its_own_length_only(stored: list[list[int]], asked: list[int]) -> None:
    catalog = Catalog()
    for tokens in stored:
        store(catalog, tokens)
        catalog.add(record(state(pack(tokens), catalog.holder(SEED, pack(tokens)))))
    whole = [len(tokens) for tokens in stored if asked[: len(tokens)] == tokens and len(tokens) < len(asked)]
    for layout in (HYBRID, STATES):
        prefix = catalog.longest(SEED, pack(asked), len(asked) - 1, layout)
        assert prefix.length == max(whole, default=0)
        assert (prefix.state is not None) == bool(whole)
        assert bool(prefix.pieces) == (layout is HYBRID and bool(whole))


def test_a_state_without_its_segments_is_of_no_use() -> None:
    tokens = list(range(20))
    catalog = Catalog()
    first = store(catalog, tokens)[0]
    catalog.add(record(state(pack(tokens), None)))
    assert catalog.longest(SEED, pack([*tokens, 1]), 20, HYBRID).length == 20
    catalog.discard(first.name)
    assert catalog.longest(SEED, pack([*tokens, 1]), 20, HYBRID).length == 0


def test_namespaces_see_nothing_of_each_other() -> None:
    catalog, tokens = Catalog(), list(range(20))
    store(catalog, tokens)
    other = seed(MODEL, "tenant")
    assert catalog.longest(other, pack(tokens), 20, KV).length == 0
    assert len(store(catalog, tokens, namespace=other)) == 3
    assert len(catalog) == 6


def test_overlapping_segments_are_read_as_few() -> None:
    catalog, tokens = Catalog(), pack(range(30))
    for start, stop in ((0, 10), (5, 20), (8, 12), (10, 14), (14, 30), (20, 30)):
        catalog.add(record(segment(tokens, start, stop, None)))
    pieces = catalog.longest(SEED, tokens, 30, KV).pieces
    assert [(piece.start, piece.stop) for piece in pieces] == [(0, 10), (10, 20), (20, 30)]


def test_a_discarded_catalog_is_empty() -> None:
    catalog = Catalog()
    store(catalog, list(range(30)))
    for name in [one.name for one in catalog]:
        catalog.discard(name)
    assert (len(catalog), catalog.size, catalog.reachable()) == (0, 0, set())
    assert catalog.longest(SEED, pack(range(30)), 30, KV).length == 0
