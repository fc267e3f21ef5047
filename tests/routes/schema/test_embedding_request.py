"""The body of an embeddings request."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import InvalidRequest
from routes.schema.embeddings import MOST_INPUTS, read_embedding_request


@pytest.mark.parametrize(
    ("given_input", "texts"),
    [
        ("hi", ["hi"]),
        (["hi", "ho"], ["hi", "ho"]),
        ([1, 2], [[1, 2]]),
        ([[1], [2, 3]], [[1], [2, 3]]),
        ([0], [[0]]),
        (" ", [" "]),
    ],
)
def test_every_form_of_input_is_read(given_input: Any, texts: Any) -> None:
    assert read_embedding_request({"input": given_input}).texts == texts


def test_what_is_not_said_has_defaults() -> None:
    wanted = read_embedding_request({"input": "hi", "model": 7, "user": None, "dimensions": None, "instruction": ""})
    assert (wanted.base64, wanted.dimensions, wanted.instruction, wanted.cut) == (False, None, None, "none")


@pytest.mark.parametrize(
    ("truncate", "cut"),
    [(True, "end"), (False, "none"), (None, "none"), ("END", "end"), ("start", "start"), ("none", "none")],
)
def test_every_word_for_cutting_is_read(truncate: Any, cut: str) -> None:
    assert read_embedding_request({"input": "hi", "truncate": truncate}).cut == cut


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "input must be a string"),
    ({"input": None}, "input must be a string"),
    ({"input": 5}, "input must be a string"),
    ({"input": True}, "input must be a string"),
    ({"input": {"text": "hi"}}, "input must be a string"),
    ({"input": ""}, "input must not be empty"),
    ({"input": []}, "input must not be empty"),
    ({"input": [""]}, r"input\[0\] must not be an empty string"),
    ({"input": ["hi", ""]}, r"input\[1\] must not be an empty string"),
    ({"input": ["hi", 5]}, r"input\[1\] must be a string"),
    ({"input": ["hi", ["ho"]]}, r"input\[1\] must be a string"),
    ({"input": [[]]}, r"input\[0\] must not be empty"),
    ({"input": [[1], "hi"]}, r"input\[1\] must be an array of token ids"),
    ({"input": [1, "hi"]}, r"input\[1\] must be a token id"),
    ({"input": [True]}, r"input\[0\] must be a token id"),
    ({"input": [1.5]}, r"input\[0\] must be a token id"),
    ({"input": [-1]}, r"input\[0\] must be a token id"),
    ({"input": [None]}, r"input\[0\] must be a token id"),
    ({"input": [[1, [2]]]}, r"input\[0\]\[1\] must be a token id"),
    ({"input": ["a"] * (MOST_INPUTS + 1)}, f"at most {MOST_INPUTS}"),
    ({"input": [[1]] * (MOST_INPUTS + 1)}, f"at most {MOST_INPUTS}"),
    ({"input": "hi", "encoding_format": "hex"}, "encoding_format must be one of 'float', 'base64'"),
    ({"input": "hi", "dimensions": 0}, "dimensions must be at least 1"),
    ({"input": "hi", "dimensions": "8"}, "dimensions must be of type int"),
    ({"input": "hi", "instruction": 5}, "instruction must be a string"),
    ({"input": [1], "instruction": "find"}, "instruction goes with text"),
    ({"input": "hi", "truncate": 5}, "truncate must be a boolean"),
    ({"input": "hi", "truncate": "middle"}, "truncate must be a boolean"),
]


@pytest.mark.parametrize(("body", "sentence"), BAD)
def test_what_is_wrong_is_named(body: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=sentence):
        read_embedding_request(body)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=8,
)


@given(st.fixed_dictionaries({"input": _JSON}, optional={"truncate": _JSON, "dimensions": _JSON, "instruction": _JSON}))
def test_any_json_is_read_or_refused(body: dict[str, Any]) -> None:
    try:
        wanted = read_embedding_request(body)
    except InvalidRequest:
        return
    assert all(len(text) > 0 for text in wanted.texts)
    assert len({isinstance(text, str) for text in wanted.texts}) == 1
