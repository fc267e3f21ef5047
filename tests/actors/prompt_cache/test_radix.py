from __future__ import annotations

import random
from array import array
from dataclasses import dataclass, field, replace
from itertools import count
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.clock import FakeClock
from actors.ids import EntryId, Incarnation
from actors.prompt_cache.index import PrefixIndex
from actors.prompt_cache.messages import Entry, Publish
from actors.prompt_cache.radix import Node, RadixTree


@dataclass(eq=False)
class Item:
    name: str
    trimmable: bool = True
    boundaries: tuple[int, ...] = ()
    used: int = field(default_factory=count(1).__next__)


def pack(*tokens: int) -> bytes:
    return array("I", tokens).tobytes()


def filled(*entries: tuple[tuple[int, ...], Item]) -> RadixTree[Item]:
    tree: RadixTree[Item] = RadixTree()
    for tokens, item in entries:
        tree.insert(pack(*tokens), item)
    assert tree.check() == []
    return tree


def answer(tree: RadixTree[Item], *prompt: int) -> tuple[str, int] | None:
    found = tree.longest(pack(*prompt))
    return (found.item.name, found.length) if found else None


def test_an_empty_tree_knows_nothing() -> None:
    tree = filled()
    assert tree.empty()
    assert answer(tree, 1, 2, 3) is None
    assert tree.covering(pack(1)) == []
    assert tree.prefixes(pack(1)) == []


def test_a_stored_prefix_is_found() -> None:
    assert answer(filled(((1, 2, 3), Item("a"))), 1, 2, 3, 4) == ("a", 3)


def test_the_last_token_is_always_left_to_compute() -> None:
    tree = filled(((1, 2, 3), Item("a")))
    assert answer(tree, 1, 2, 3) == ("a", 2)
    assert answer(tree, 1) is None
    assert answer(tree) is None


def test_a_trimmable_item_serves_what_it_shares() -> None:
    tree = filled(((1, 2, 3, 4, 5), Item("a")))
    assert answer(tree, 1, 2, 3, 9, 9, 9) == ("a", 3)
    assert answer(tree, 1, 2, 3) == ("a", 2)
    assert answer(tree, 9, 2, 3) is None


def test_an_untrimmable_item_serves_only_whole() -> None:
    tree = filled(((1, 2, 3), Item("a", trimmable=False)))
    assert answer(tree, 1, 2, 3, 4) == ("a", 3)
    assert answer(tree, 1, 2, 3) is None
    assert answer(tree, 1, 2, 9, 9) is None


def test_the_longest_usable_prefix_wins_over_recency() -> None:
    tree = filled(
        ((1, 2, 3, 4), Item("long", trimmable=False)),
        ((1, 2), Item("short", trimmable=False)),
        ((1, 2, 9), Item("side")),
    )
    assert answer(tree, 1, 2, 3, 4, 5) == ("long", 4)
    assert answer(tree, 1, 2, 3, 7) == ("side", 2)


def test_an_unusable_deep_item_falls_back_to_a_shallow_one() -> None:
    tree = filled(((1, 2), Item("short", trimmable=False)), ((1, 2, 3, 4, 5, 6), Item("deep", trimmable=False)))
    assert answer(tree, 1, 2, 3, 4, 5, 9) == ("short", 2)


def test_equal_lengths_go_to_the_most_recently_used() -> None:
    tree: RadixTree[Item] = RadixTree()
    items = [Item(name) for name in "abc"]
    nodes = [tree.insert(pack(1, 2, 10 + number), item) for number, item in enumerate(items)]
    assert answer(tree, 1, 2, 99) == ("c", 2)
    items[0].used = 10**6
    tree.touch(nodes[0])
    assert answer(tree, 1, 2, 99) == ("a", 2)
    tree.remove(nodes[0])
    assert answer(tree, 1, 2, 99) == ("c", 2)
    assert tree.check() == []


def test_a_whole_item_and_a_trimmed_one_of_equal_length_compete_by_recency() -> None:
    older = filled(((1, 2, 3), Item("whole", trimmable=False)), ((1, 2, 3, 4), Item("trimmed")))
    newer = filled(((1, 2, 3, 4), Item("trimmed")), ((1, 2, 3), Item("whole", trimmable=False)))
    assert answer(older, 1, 2, 3, 4) == ("trimmed", 3)
    assert answer(newer, 1, 2, 3, 4) == ("whole", 3)


def test_tokens_are_compared_whole_and_not_by_bytes() -> None:
    tree = filled(((0x01020304, 0x0A0B0C0D), Item("a")))
    assert answer(tree, 0x01020304, 0x0A0B0C0E, 5) == ("a", 1)
    assert answer(tree, 0x01020305, 0x0A0B0C0D, 5) is None


def test_tokens_of_their_own_are_required() -> None:
    tree = filled(((1, 2), Item("a")))
    with pytest.raises(ValueError, match="tokens of its own"):
        tree.insert(pack(1, 2), Item("b"))
    with pytest.raises(ValueError, match="tokens of its own"):
        tree.insert(b"", Item("b"))


def test_covering_finds_items_that_can_be_cut_to_the_tokens() -> None:
    tree = filled(((1, 2, 3), Item("a")), ((1, 5, 6), Item("b", trimmable=False)))
    tree.insert(pack(1, 7, 7, 8), Item("c", trimmable=False), [2])
    for tokens, name in (((1, 2, 3), "a"), ((1, 2), "a"), ((1,), "a"), ((1, 7), "c")):
        assert [item.name for item in tree.covering(pack(*tokens))] == [name]
    for tokens in ((1, 2, 3, 4), (1, 5), (1, 7, 7)):
        assert tree.covering(pack(*tokens)) == []


def test_an_item_is_cut_at_its_boundaries_and_nowhere_else() -> None:
    tree: RadixTree[Item] = RadixTree()
    node = tree.insert(pack(1, 2, 3, 4, 5, 6), Item("a", trimmable=False), [2, 4])
    assert tree.check() == []
    assert answer(tree, 1, 2, 3, 4, 5, 6, 7) == ("a", 6)
    assert answer(tree, 1, 2, 3, 4, 5, 6) == ("a", 4)
    assert answer(tree, 1, 2, 3, 9) == ("a", 2)
    assert answer(tree, 1, 2) is None
    other = tree.insert(pack(1, 2, 3), Item("b", trimmable=False))
    assert answer(tree, 1, 2, 3, 9) == ("b", 3)
    tree.remove(node)
    assert tree.check() == []
    assert answer(tree, 1, 2, 9) is None
    tree.remove(other)
    assert tree.empty()


@pytest.mark.parametrize("boundaries", [[0], [3], [4], [2, 2]])
def test_boundaries_lie_within_and_rise(boundaries: list[int]) -> None:
    index = PrefixIndex(100, 1, FakeClock())
    entry = Entry(EntryId("a"), pack(1, 2, 3), 1, False, None, tuple(boundaries))
    with pytest.raises(ValueError, match="boundaries"):
        index.publish(Publish("model", Incarnation("one"), entry))
    assert index.statistics(0).entries == 0


def test_what_is_shared_need_not_be_usable() -> None:
    tree = filled(((1, 2, 3, 4), Item("a", trimmable=False)))
    assert [tree.shared(pack(*tokens)) for tokens in ((1, 2, 9), (1, 2, 3, 4, 5), (9,))] == [2, 4, 0]


def test_a_search_may_begin_at_any_node_that_leads_to_the_prompt() -> None:
    tree = filled(((1, 2), Item("a", trimmable=False)), ((1, 2, 3, 4), Item("b", trimmable=False)))
    prompt = pack(1, 2, 3, 4, 5)
    start = tree.insert(pack(1, 2, 3), Item("c", trimmable=False))
    assert tree.leads(start, prompt)
    assert tree.longest(prompt, start) == replace(tree.longest(prompt), visited=ANY)  # type: ignore[type-var]
    assert not tree.leads(start, pack(1, 2, 3))
    assert not tree.leads(start, pack(1, 9, 3, 4))


def test_prefixes_come_longest_first() -> None:
    tree = filled(
        ((1,), Item("a", False)), ((1, 2, 3), Item("b", False)), ((1, 2, 4), Item("c")), ((1, 2, 3, 4), Item("d"))
    )
    assert [(length, item.name) for length, item in tree.prefixes(pack(1, 2, 3))] == [(3, "b"), (1, "a")]


def test_removing_joins_edges_again() -> None:
    tree: RadixTree[Item] = RadixTree()
    long, short, side = Item("long"), Item("short"), Item("side")
    nodes = [tree.insert(pack(*tokens), item) for tokens, item in (((1, 2, 3, 4), long), ((1, 2), short))]
    nodes.append(tree.insert(pack(1, 2, 3, 9), side))
    assert len(list(tree.nodes())) == 4
    tree.remove(nodes[2])
    tree.remove(nodes[1])
    (only,) = tree.nodes()
    assert (only.item, only.edge, tree.check()) == (long, pack(1, 2, 3, 4), [])
    tree.remove(nodes[0])
    assert tree.empty()


def test_check_sees_a_broken_tree() -> None:
    tree = filled(((1, 2, 3), Item("a")), ((1, 2, 4), Item("b")))
    (upper,) = tree.root.children.values()
    upper.recent = None
    assert any("most recent" in fault for fault in tree.check())
    lower = next(iter(upper.children.values()))
    lower.item = None
    lower.edge += b"x"
    faults = " ".join(tree.check())
    assert "neither holds an item nor branches" in faults
    assert "does not fit its depth" in faults


def brute_force(held: dict[tuple[int, ...], Item], prompt: tuple[int, ...]) -> tuple[str, int] | None:
    best: tuple[int, int, str] | None = None
    for tokens, item in held.items():
        shared = next((at for at, (a, b) in enumerate(zip(tokens, prompt, strict=False)) if a != b), None)
        common = min(len(tokens), len(prompt)) if shared is None else shared
        usable = min(common, len(prompt) - 1)
        if not item.trimmable:
            usable = max(cut for cut in (0, *item.boundaries, len(tokens)) if cut <= max(usable, 0))
        if usable > 0:
            best = max(best or (0, 0, ""), (usable, item.used, item.name))
    return (best[2], best[0]) if best else None


sequences = st.lists(st.integers(0, 2), min_size=1, max_size=7).map(tuple)


@given(
    st.lists(
        st.tuples(
            sequences,
            st.none() | st.frozensets(st.integers(1, 6)),
            st.sampled_from(["put", "put", "take", "use"]),
        ),
        max_size=30,
    ),
    st.lists(sequences, min_size=1, max_size=6),
)
def test_the_tree_agrees_with_brute_force(
    steps: list[tuple[tuple[int, ...], frozenset[int] | None, str]], prompts: list[tuple[int, ...]]
) -> None:
    tree: RadixTree[Item] = RadixTree()
    held: dict[tuple[int, ...], tuple[Item, Node[Item]]] = {}
    for number, (tokens, cuts, step) in enumerate(steps):
        if tokens not in held and step == "put":
            boundaries = tuple(sorted(cut for cut in cuts or () if cut < len(tokens)))
            item = Item(str(number), cuts is None, boundaries)
            held[tokens] = (item, tree.insert(pack(*tokens), item, boundaries))
        elif tokens in held and step == "take":
            tree.remove(held.pop(tokens)[1])
        elif tokens in held:
            item, node = held[tokens]
            item.used = Item("").used
            tree.touch(node)
        assert tree.check() == []
    items = {tokens: item for tokens, (item, _) in held.items()}
    for prompt in prompts:
        assert answer(tree, *prompt) == brute_force(items, prompt)


def test_a_long_prompt_visits_few_nodes_among_a_thousand_entries() -> None:
    noise = random.Random(3)
    prompt = array("I", (noise.randrange(50_000) for _ in range(100_000)))
    tree: RadixTree[Item] = RadixTree()
    for number in range(990):
        tail = array("I", (50_000 + noise.randrange(1000) for _ in range(20)))
        tree.insert((prompt[:90_000] + tail).tobytes(), Item(f"tail{number}"))
    for number in range(1, 11):
        tree.insert(prompt[: number * 1000].tobytes(), Item(f"checkpoint{number}", trimmable=False))
    found = tree.longest(prompt.tobytes())
    assert found is not None
    assert found.length == 90_000
    # Root, ten checkpoints and the fork on the way down, and the fork again: none of the 990 tails.
    assert found.visited == 13
    # What the entries share is held once.
    assert sum(len(node.edge) for node in tree.nodes()) <= 4 * (90_000 + 990 * 20)


def test_a_chain_of_a_thousand_checkpoints_is_walked_once_each_way() -> None:
    prompt = array("I", range(100_000))
    tree: RadixTree[Item] = RadixTree()
    for number in range(1, 1001):
        tree.insert(prompt[: number * 99].tobytes(), Item(str(number), trimmable=False))
    found = tree.longest(prompt[:50_000].tobytes())
    assert found is not None
    assert found.length == 505 * 99
    assert found.visited <= 2 * 508
