from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from actors.errors import StartError
from actors.models.weights import weight_files


def write(path: Path, length: int = 16) -> Path:
    """A safetensors file with one tensor of `length` bytes."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [length], "data_offsets": [0, length]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(length))
    return path


def test_files_are_listed_in_order_with_their_sizes(tmp_path: Path) -> None:
    second, first = (
        write(tmp_path / "model-00002-of-00002.safetensors", 5),
        write(tmp_path / "model-00001-of-00002.safetensors"),
    )
    write(tmp_path / "adapters.safetensors")
    files = weight_files(tmp_path)
    assert [file.path for file in files] == [first, second]
    assert [file.size for file in files] == [first.stat().st_size, second.stat().st_size]


def test_a_digest_changes_with_name_header_size_and_time(tmp_path: Path) -> None:
    path = write(tmp_path / "model.safetensors")
    digests = [weight_files(tmp_path)[0].digest]
    assert weight_files(tmp_path)[0].digest == digests[0]
    os.utime(path, ns=(1, 1))
    digests.append(weight_files(tmp_path)[0].digest)
    os.utime(write(path, 17), ns=(1, 1))
    digests.append(weight_files(tmp_path)[0].digest)
    path.rename(tmp_path / "model-a.safetensors")
    digests.append(weight_files(tmp_path)[0].digest)
    assert len(set(digests)) == len(digests)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(StartError, match=r"holds no model\*\.safetensors file$"):
        weight_files(tmp_path)


def test_a_missing_shard_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "model-00001-of-00003.safetensors")
    write(tmp_path / "model-00003-of-00003.safetensors")
    with pytest.raises(StartError, match=r"holds only 2 of the 3 files model-\*-of-00003\.safetensors$"):
        weight_files(tmp_path)


def test_a_file_cut_short_is_refused_wherever_it_was_cut(tmp_path: Path) -> None:
    path = write(tmp_path / "model.safetensors")
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(StartError, match="is cut short"):
            weight_files(tmp_path)


def test_bytes_after_the_last_tensor_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "model.safetensors")
    path.write_bytes(path.read_bytes() + b"abc")
    with pytest.raises(StartError, match="is damaged: 3 bytes follow its last tensor"):
        weight_files(tmp_path)


@pytest.mark.parametrize("header", [b"[]", b"{}", b'{"w": 3}', b'{"w": {"data_offsets": []}}', b"\xff\xfe", b"null"])
def test_a_header_that_says_nothing_is_refused(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(StartError, match="its header cannot be read"):
        weight_files(tmp_path)


def test_a_header_length_out_of_this_world_is_not_read_into_memory(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(StartError, match="its header cannot be read"):
        weight_files(tmp_path)


def test_a_pointer_file_instead_of_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("version 1 of a large file pointer\noid sha256:00\nsize 9\n")
    with pytest.raises(StartError, match="no safetensors file"):
        weight_files(tmp_path)
