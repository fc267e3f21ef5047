from __future__ import annotations

from types import SimpleNamespace

import pytest

from actors.ingress.scaling import ByOpenRequests


@pytest.mark.parametrize(("counts", "replicas"), [([0], 1), ([64], 1), ([65], 2), ([10, 200], 3), ([], 1)])
def test_replicas_follow_open_requests_within_their_bounds(counts: list[int], replicas: int) -> None:
    series = {f"replica-{place}": [SimpleNamespace(value=count)] for place, count in enumerate(counts)}
    context = SimpleNamespace(
        raw_metrics={"open_requests": series}, capacity_adjusted_min_replicas=1, capacity_adjusted_max_replicas=3
    )
    assert ByOpenRequests(target=64)(context) == (replicas, {})
