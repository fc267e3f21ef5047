from prometheus_client.parser import text_string_to_metric_families

from tests.routes.harness import House, build, chat, connect


async def scrape(house: House) -> dict[tuple[str, tuple[str, ...]], float]:
    async with connect(house) as client:
        response = await client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(response.text)
    return {(s.name, tuple(s.labels.values())): s.value for family in families for s in family.samples}


async def test_every_actor_is_scraped_under_its_name() -> None:
    house = build()
    house.says("x")
    async with connect(house) as client:
        await client.post("/v1/chat/completions", json=chat())
    figures = await scrape(house)
    assert figures["troupe_scheduler_up", ()] == 1
    assert figures["troupe_scheduler_active_rows", ()] == 2
    assert figures["troupe_scheduler_submitted_rows_total", ()] == 9
    assert figures["troupe_prompt_cache_hits_total", ()] == 6
    assert figures["troupe_lease_budget_bytes", ()] == 8000
    assert figures["troupe_lease_class_grants_total", ("interactive",)] == 5
    assert figures["troupe_ingress_admitted_total", ("ingress-test",)] == 1
    assert figures["troupe_ingress_draining", ("ingress-test",)] == 0
    assert figures["troupe_ingress_preparation_prepared_total", ("ingress-test",)] == 1


async def test_a_silent_actor_is_shown_as_down() -> None:
    house = build()
    house.generation.down = True
    figures = await scrape(house)
    assert figures["troupe_scheduler_up", ()] == 0
    assert ("troupe_scheduler_active_rows", ()) not in figures
    assert figures["troupe_prompt_cache_up", ()] == 1
