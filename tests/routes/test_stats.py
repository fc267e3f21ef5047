import dataclasses

from actors.prompt_cache.messages import CacheStatistics
from routes.app import create_app
from tests.routes.harness import build, chat, connect
from tests.routes.scripted_generation import description


async def test_the_blocks_of_the_protocol_carry_the_actors_figures() -> None:
    house = build({"gpu_lease": {"memory_budget": "1GiB"}})
    house.generation.described = description(context_limit=4096)
    async with connect(house) as client:
        stats = (await client.get("/stats")).json()
    assert stats["server"] == {"owner": "serve", "model": "org/tiny", "started_at": 1_700_000_000}
    assert stats["prompt_cache"] == {
        "entries": 4,
        "bytes": 500,
        "max_bytes": 9000,
        "hits": 6,
        "misses": 7,
        "object_hits": 0,
        "object_misses": 0,
        "object_restores": 0,
        "session_hits": 2,
        "session_misses": 4,
        "prefix_scans": 11,
    }
    assert stats["kv_quant"] == {"mode": "bf16", "layers": None, "attention": None, "recurrent_layers": None}
    assert stats["admission"] == {
        "max_safe_context": None,
        "enforced_context_tokens": 4096,
        "memory_budget_bytes": 2**30,
        "usable_bytes": 8000,
        "weights_bytes": 1000,
    }
    assert stats["batch"] == {
        "configured": 8,
        "mode": "batch",
        "batched": True,
        "active_rows": 2,
        "pending_rows": 4,
        "submitted_rows": 9,
        "kv_bytes": 77,
        "kv_budget_bytes": None,
    }


async def test_every_figure_of_every_actor_is_there() -> None:
    house = build()
    house.says("x")
    async with connect(house) as client:
        await client.post("/v1/chat/completions", json=chat())
        company = (await client.get("/stats")).json()["troupe"]
    assert company["scheduler"] == dataclasses.asdict(await house.generation.statistics())
    assert company["prompt_cache"] == dataclasses.asdict(await house.context.cache_statistics())
    assert company["lease"] == dataclasses.asdict(await house.context.lease_statistics())
    ingress = company["ingress"]
    assert (ingress["replica"], ingress["open_requests"], ingress["admitted"]) == ("ingress-test", 0, 1)
    assert (ingress["preparation"]["prepared"], ingress["preparation"]["waiting"]) == (1, 0)


async def test_actors_that_do_not_answer_are_null_and_hide_nobody_else() -> None:
    async def broken() -> CacheStatistics:
        raise RuntimeError("the actor died")

    house = build()
    house.generation.down = True
    house.generation.described = None
    context = dataclasses.replace(house.context, cache_statistics=broken)
    house.app = create_app(context)
    async with connect(house) as client:
        response = await client.get("/stats")
    stats = response.json()
    assert response.status_code == 200
    assert stats["batch"] is stats["prompt_cache"] is stats["troupe"]["scheduler"] is None
    assert stats["admission"]["weights_bytes"] is None
    assert stats["troupe"]["lease"]["epoch"] == 3
