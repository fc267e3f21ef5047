"""A record as bytes: back bit for bit, or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.spill.codec import ALIGNMENT, Damaged, encode, load, read_record
from actors.spill.record import Draft, Tensor
from tests.support.records import MODEL, pack, segment

DTYPES = {"bfloat16": "<u2", "float16": "<f2", "float32": "<f4", "uint8": "|u1", "int32": "<i4", "bool": "|b1"}


@st.composite
def tensors(draw: st.DrawFn) -> tuple[Tensor, ...]:
    found: list[Tensor] = []
    for index in range(draw(st.integers(0, 4))):
        dtype = draw(st.sampled_from(sorted(DTYPES)))
        shape = draw(st.lists(st.integers(0, 5), max_size=4))
        width = np.dtype(DTYPES[dtype]).itemsize
        count = int(np.prod(shape))
        data = draw(st.binary(min_size=count * width, max_size=count * width))
        if dtype == "bool":
            data = bytes(byte & 1 for byte in data)
        found.append(Tensor(f"t{index}", dtype, np.frombuffer(data, DTYPES[dtype]).reshape(shape)))
    return tuple(found)


def put(draft: Draft, folder: Path) -> Path:
    path = folder / f"{draft.name}.kv"
    path.write_bytes(b"".join(encode(draft)))
    return path


@given(tensors(), st.text(max_size=200), st.binary(max_size=64))
def test_what_is_read_is_what_was_written(content: tuple[Tensor, ...], extra: str, tokens: bytes) -> None:
    draft = Draft(MODEL, "segment", 7, 11, b"b" * 32, b"a" * 32, "parent", tokens, content, extra)
    with tempfile.TemporaryDirectory() as folder:
        loaded = load(put(draft, Path(folder)), MODEL)
    assert list(loaded.tensors) == [tensor.name for tensor in content]
    for tensor in content:
        back = loaded.tensors[tensor.name]
        assert (back.dtype, back.data.shape) == (tensor.dtype, tensor.data.shape)
        assert back.data.tobytes() == tensor.data.tobytes()
    assert loaded.extra == extra
    record = loaded.record
    assert (record.start, record.stop, record.before, record.after) == (7, 11, b"b" * 32, b"a" * 32)
    assert (record.tokens, record.parent, record.kind) == (tokens, "parent", "segment")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return put(segment(pack(range(40)), 8, 16, None), tmp_path)


def test_every_flipped_bit_that_counts_is_seen(path: Path) -> None:
    whole = path.read_bytes()
    loaded = load(path, MODEL)
    [tensor] = loaded.tensors.values()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        try:
            again = load(path, MODEL)
        except Damaged:
            continue
        # Only the padding may change unseen.
        assert again.record == loaded.record
        assert again.tensors[tensor.name].data.tobytes() == tensor.data.tobytes()
        assert whole[place] == 0


def test_every_cut_is_seen(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(Damaged):
            load(path, MODEL)
        with pytest.raises(Damaged):
            read_record(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(Damaged):
        read_record(path)


def test_another_models_record_is_refused(path: Path) -> None:
    with pytest.raises(Damaged, match="another model"):
        load(path, "cd" * 32)


def test_another_format_is_refused(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[8] = 2
    path.write_bytes(content)
    with pytest.raises(Damaged, match="its format is 2"):
        read_record(path)


def test_a_record_under_anothers_name_is_refused(path: Path) -> None:
    stranger = path.with_name("0" * 40 + ".kv")
    path.rename(stranger)
    with pytest.raises(Damaged, match="another record"):
        load(stranger, MODEL)


def test_tensors_begin_where_they_can_be_mapped(path: Path) -> None:
    data = path.read_bytes()
    [tensor] = load(path, MODEL).tensors.values()
    assert data.index(tensor.data.tobytes()) % ALIGNMENT == 0


def test_random_bytes_are_no_record(path: Path) -> None:
    for length in (0, 3, 16, 100, 5000):
        path.write_bytes(os.urandom(length))
        with pytest.raises(Damaged):
            read_record(path)


def test_a_type_that_no_file_can_hold_is_refused() -> None:
    draft = segment(pack(range(8)), 0, 8, None)
    strange = Draft(
        draft.model, "segment", 0, 8, draft.before, draft.after, None, draft.tokens,
        (Tensor("x", "bfloat16", np.zeros(3, np.float32)),),
    )  # fmt: skip
    with pytest.raises(ValueError, match="cannot be stored"):
        encode(strange)
