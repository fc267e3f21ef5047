"""One record as the bytes of a file, and back.

    magic, version, length of the header | header (JSON) | SHA-256 of all before | tensors, each at a multiple of 64

Numbers are little-endian. The header carries every tensor's place and CRC-32, and the size of the whole file, so that
a file that was cut, or changed in a single bit, is never taken for whole. MLX is not needed to read or write.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import cast

import msgspec
import numpy as np

from actors.spill.record import Draft, Kind, Record, Tensor, record_name

MAGIC = b"TROUPEKV"
VERSION = 1
ALIGNMENT = 64
MAX_HEADER = 2**24
_PREFIX = struct.Struct("<8sII")
_DIGEST = 32
_STORED: dict[str, str] = {
    "bool": "|b1",
    "bfloat16": "<u2",
    "float16": "<f2",
    "float32": "<f4",
    "float64": "<f8",
    **{f"{sign}int{bits}": f"<{code}{bits // 8}" for sign, code in (("", "i"), ("u", "u")) for bits in (8, 16, 32, 64)},
}
"""How each of MLX's types lies in the file."""


class Damaged(ValueError):
    """The file is not a whole record of this format. The message says what is wrong."""


class _TensorHeader(msgspec.Struct, frozen=True):
    name: str
    dtype: str
    shape: list[int]
    offset: int
    size: int
    crc32: int


class _Header(msgspec.Struct, frozen=True):
    model: str
    kind: Kind
    start: int
    stop: int
    before: bytes
    after: bytes
    parent: str | None
    tokens: bytes
    extra: str
    size: int
    tensors: list[_TensorHeader]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A record whose checksums were right."""

    record: Record
    """What it is."""
    tensors: dict[str, Tensor]
    """Its arrays by name."""
    extra: str
    """Text that belongs to them."""


def encode(draft: Draft) -> list[bytes | memoryview]:
    """The file's content in pieces; the arrays are not copied.

    Raises:
        ValueError: a tensor has a type or layout that no file can hold.
    """
    arrays = [_raw(tensor) for tensor in draft.tensors]
    checksums = [zlib.crc32(array) for array in arrays]
    # The place of the tensors depends on the length of the header, whose numbers depend on their place; two rounds
    # settle it, because the second begins with room for the first one's digits.
    start, header = 0, b""
    while True:
        header, size = _header(draft, arrays, checksums, start)
        needed = _aligned(_PREFIX.size + len(header) + _DIGEST)
        if needed <= start:
            break
        start = needed + ALIGNMENT
    front = _PREFIX.pack(MAGIC, VERSION, len(header)) + header
    front += hashlib.sha256(front).digest()
    pieces: list[bytes | memoryview] = [front, bytes(start - len(front))]
    for array in arrays:
        pieces += [array, bytes(_aligned(len(array)) - len(array))]
    assert sum(map(len, pieces)) == size
    return pieces


def read_record(path: Path) -> Record:
    """What a file says it is, by its header alone. Blocks for a small read.

    Raises:
        Damaged: it is no whole record; tensors are not looked at beyond their size.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return _record(path, *_read_header(file))


def load(path: Path, model: str) -> Loaded:
    """Read a record and verify every byte of it. Blocks for the file.

    Raises:
        Damaged: a checksum is wrong, something is missing, or it is another model's.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        header, start = _read_header(file)
        record = _record(path, header, start)
        if header.model != model:
            raise Damaged("it belongs to another model")
        tensors = {part.name: _tensor(file, part) for part in header.tensors}
    return Loaded(record, tensors, header.extra)


def _raw(tensor: Tensor) -> memoryview:
    stored = _STORED.get(tensor.dtype)
    if stored is None or tensor.data.dtype != np.dtype(stored) or not tensor.data.flags.c_contiguous:
        raise ValueError(f"{tensor.name} cannot be stored: {tensor.dtype} as {tensor.data.dtype}")
    # Reshaped first: an empty array, or one without dimensions, has no bytes to cast otherwise.
    return tensor.data.reshape(-1).view(np.uint8).data


def _header(draft: Draft, arrays: list[memoryview], checksums: list[int], start: int) -> tuple[bytes, int]:
    tensors: list[_TensorHeader] = []
    offset = start
    for tensor, array, crc32 in zip(draft.tensors, arrays, checksums, strict=True):
        tensors.append(_TensorHeader(tensor.name, tensor.dtype, list(tensor.data.shape), offset, len(array), crc32))
        offset += _aligned(len(array))
    header = _Header(
        draft.model,
        draft.kind,
        draft.start,
        draft.stop,
        draft.before,
        draft.after,
        draft.parent,
        draft.tokens,
        draft.extra,
        offset,
        tensors,
    )
    return msgspec.json.encode(header), offset


def _read_header(file: BufferedReader) -> tuple[_Header, int]:
    """The header and where it ends."""
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size or not prefix.startswith(MAGIC):
        raise Damaged("it is no record")
    _, version, length = cast(tuple[bytes, int, int], _PREFIX.unpack(prefix))
    if version != VERSION:
        raise Damaged(f"its format is {version}, not {VERSION}")
    if length > MAX_HEADER:
        raise Damaged("its header is too long")
    rest = file.read(length + _DIGEST)
    if len(rest) != length + _DIGEST or hashlib.sha256(prefix + rest[:length]).digest() != rest[length:]:
        raise Damaged("its header is damaged")
    try:
        return msgspec.json.decode(rest[:length], type=_Header), len(prefix) + len(rest)
    except msgspec.DecodeError as error:
        raise Damaged(f"its header is not understood: {error}") from None


def _record(path: Path, header: _Header, end: int) -> Record:
    size, named = path.stat().st_size, record_name(header.kind, header.start, header.after)
    if size != header.size or any(part.offset < end or part.offset + part.size > size for part in header.tensors):
        raise Damaged(f"it has {size} bytes of {header.size}")
    if path.stem != named:
        raise Damaged("its name is another record's")
    return Record(
        named,
        header.model,
        header.kind,
        header.start,
        header.stop,
        header.before,
        header.after,
        header.parent,
        header.tokens,
        size,
    )


def _tensor(file: BufferedReader, part: _TensorHeader) -> Tensor:
    stored = _STORED.get(part.dtype)
    data = np.empty(part.size, dtype=np.uint8)
    file.seek(part.offset)
    if file.readinto(data.data) != part.size or zlib.crc32(data.data) != part.crc32:
        raise Damaged(f"{part.name} is damaged")
    if stored is None:
        raise Damaged(f"{part.name} has the unknown type {part.dtype}")
    try:
        return Tensor(part.name, part.dtype, data.view(stored).reshape(part.shape))
    except ValueError:
        raise Damaged(f"{part.name} has another shape than it says") from None


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
