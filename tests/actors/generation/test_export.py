"""Arrays on their way to the disk: in slices, and whatever becomes of those who ordered them."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import KVCache, RotatingKVCache

from actors.generation.export import Exports, Order
from actors.generation.shelf import Shelf
from actors.ids import EntryId

ENTRY = EntryId("entry")


@pytest.fixture
def shelf() -> Shelf:
    """One prefix of 12 tokens: three layers of keys and values, one of a window."""
    shelf = Shelf()
    caches = [KVCache(), KVCache(), KVCache(), RotatingKVCache(max_size=4)]
    for layer, cache in enumerate(caches):
        values = mx.arange(12 * 2, dtype=mx.float32).reshape(1, 1, 12, 2) + 100 * layer
        cache.update_and_fetch(values, -values)
    shelf.put(ENTRY, caches, 12)
    return shelf


def test_an_order_is_cut_one_slice_a_step(shelf: Shelf) -> None:
    exports, order = Exports(shelf, slice_bytes=1), Order(ENTRY, ((0, 5), (5, 12)), (12,))
    exports.take(order)
    steps = 0
    while exports.pending:
        assert not order.done.done()
        exports.step()
        steps += 1
    # Three layers of two segments, the state, and the end.
    assert steps == 8
    first, second, state = order.done.result() or []
    assert [tensor.name for tensor in first.tensors] == [f"{n}.{kind}" for n in range(3) for kind in ("keys", "values")]
    assert np.array_equal(second.tensors[2].data.ravel(), np.arange(10, 24) + 100)
    assert second.tensors[2].data.shape == (1, 1, 7, 2)
    assert state.extra
    assert {tensor.name.split(".")[0] for tensor in state.tensors} == {"3"}


def test_a_prefix_that_is_gone_is_said(shelf: Shelf) -> None:
    exports, order = Exports(shelf), Order(EntryId("other"), ((0, 5),))
    exports.take(order)
    exports.step()
    assert order.done.result() is None


def test_an_order_that_was_cancelled_disturbs_nobody(shelf: Shelf) -> None:
    exports = Exports(shelf, slice_bytes=1)
    orders = [Order(ENTRY, ((0, 5),)) for _ in range(3)]
    assert orders[0].done.cancel()
    for order in orders:
        exports.take(order)
    assert not orders[1].done.cancel()
    exports.step()
    exports.clear()
    assert [order.done.done() for order in orders] == [True, True, True]
    assert orders[2].done.result() is None


def test_a_failure_is_the_orders_own(shelf: Shelf) -> None:
    exports = Exports(shelf)
    bad, good = Order(ENTRY, (), (7,)), Order(ENTRY, ((0, 5),))
    exports.take(bad)
    exports.take(good)
    exports.step()
    exports.step()
    with pytest.raises(KeyError):
        bad.done.result()
    assert good.done.result() is not None


def test_while_nobody_decodes_several_slices_are_cut_at_once(shelf: Shelf) -> None:
    exports, order = Exports(shelf, slice_bytes=100), Order(ENTRY, ((0, 5), (5, 12)), (12,))
    exports.take(order)
    steps = 0
    while exports.pending:
        exports.step(calm=True)
        steps += 1
    hurried = Exports(shelf, slice_bytes=100)
    hurried.take(Order(ENTRY, ((0, 5), (5, 12)), (12,)))
    others = 0
    while hurried.pending:
        hurried.step()
        others += 1
    assert order.done.result(0) is not None
    assert steps < others
