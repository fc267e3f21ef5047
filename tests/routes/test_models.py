import pytest

from tests.routes.harness import build, byte_tokenizer, connect
from tests.routes.scripted_generation import description


async def test_the_index_names_the_model_and_only_paths_that_exist() -> None:
    house = build()
    async with connect(house) as client:
        index = (await client.get("/v1")).json()
        assert (index["name"], index["model"]) == ("troupe", "org/tiny")
        assert index["version"]
        for endpoint in index["endpoints"]:
            method, path = endpoint.split()
            assert (await client.request(method, path)).status_code not in (404, 405)


async def test_the_served_model_is_listed_with_its_capabilities() -> None:
    house = build({"generation": {"temperature": 0.3}}, {"top_p": 0.9})
    async with connect(house) as client:
        listed = (await client.get("/v1/models")).json()
    (model,) = listed["data"]
    assert listed["object"] == "list"
    assert (model["id"], model["object"], model["created"]) == ("org/tiny", "model", 1_700_000_000)
    assert (model["context_window"], model["batch_mode"], model["reasoning"]) == (2048, "batch", True)
    assert model["gen_defaults"] == {"temperature": 0.3, "top_p": 0.9, "top_k": None}
    assert model["capabilities"]["chat_completions"] is True
    assert model["capabilities"]["tools"] is model["tools"] is True
    assert model["capabilities"]["structured_output"] is model["structured_output"] is True
    assert model["capabilities"]["vision"] is model["vision"] is False


async def test_grammars_that_are_switched_off_are_no_capability() -> None:
    async with connect(build({"generation": {"grammar": {"enabled": False}}})) as client:
        (model,) = (await client.get("/v1/models")).json()["data"]
    assert model["capabilities"]["structured_output"] is model["structured_output"] is False


@pytest.mark.parametrize(
    ("changes", "mode"), [({"max_rows": 1, "batchable": False}, "off"), ({"batchable": False}, "serial")]
)
async def test_the_batch_mode_tells_why_rows_run_alone(changes: dict[str, object], mode: str) -> None:
    house = build(tokenizer=byte_tokenizer("{{ messages }}"))
    house.generation.described = description(**changes)
    async with connect(house) as client:
        (model,) = (await client.get("/v1/models")).json()["data"]
    assert (model["batch_mode"], model["reasoning"]) == (mode, False)


@pytest.mark.parametrize(("model_id", "found"), [("org/tiny", 1), ("org%2Ftiny", 1), ("tiny", 0), ("org/tiny/x", 0)])
async def test_asking_for_one_model_filters_the_list(model_id: str, found: int) -> None:
    async with connect(build()) as client:
        response = await client.get(f"/v1/models/{model_id}")
    assert response.status_code == 200
    assert response.json()["object"] == "list"
    assert len(response.json()["data"]) == found
