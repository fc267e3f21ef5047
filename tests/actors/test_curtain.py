"""Who is recognised as the launcher of a start."""

from __future__ import annotations

import pytest

from actors import curtain


@pytest.mark.parametrize(
    ("command", "launches"),
    [
        (["/venv/bin/python3", "/venv/bin/serve", "run", "configs/local.yaml"], True),
        ([".venv/bin/python3", ".venv/bin/troupe", "serve", "c.yaml"], True),
        (["serve", "run", "c.yaml"], True),
        (["/usr/bin/make", "serve"], False),
        (["/venv/bin/python3", "/venv/bin/serve", "deploy", "c.yaml"], False),
        (["/venv/bin/python3", "-m", "pytest", "serve", "run"], False),
        (["timeout", "60", "serve", "run", "c.yaml"], False),
        (["/lib/ray/raylet", "--x"], False),
        (["ray::ServeController"], False),
        ([], False),
    ],
)
def test_only_what_started_ray_for_us_is_taken_down(command: list[str], launches: bool) -> None:
    assert curtain.is_launcher(command) is launches
