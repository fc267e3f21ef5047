"""Errors cross processes, by pickle and by name."""

from __future__ import annotations

import pickle

import pytest

from actors import errors


def tree(root: type[errors.TroupeError]) -> list[type[errors.TroupeError]]:
    return [root, *(leaf for child in root.__subclasses__() for leaf in tree(child))]


@pytest.mark.parametrize("kind", tree(errors.TroupeError), ids=lambda kind: kind.__name__)
def test_every_error_survives_both_ways(kind: type[errors.TroupeError]) -> None:
    for copy in (pickle.loads(pickle.dumps(kind("why"))), errors.by_name(kind.__name__, "why")):
        assert type(copy) is kind
        assert (copy.message, str(copy), copy.status) == ("why", "why", kind.status)


def test_an_unknown_name_is_a_failed_generation() -> None:
    assert type(errors.by_name("Nonsense", "why")) is errors.GenerationFailed
