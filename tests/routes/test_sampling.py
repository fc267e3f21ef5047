import pytest

from actors.generation.messages import Sampling
from actors.settings import GenerationSettings, ToneSettings
from routes.sampling import SamplingDefaults, resolve_sampling, sampling_defaults
from routes.schema.sampling import SamplingFields, read_sampling
from tests.routes.harness import model_card

OFF = ToneSettings()  # type: ignore[call-arg]
PLAIN = SamplingDefaults(0.7, 0.0, 0, OFF)


def wanted(**fields: object) -> SamplingFields:
    return read_sampling(fields)


def resolve(wanted: SamplingFields, defaults: SamplingDefaults, vocabulary: int, thinks: bool = True) -> Sampling:
    return resolve_sampling(wanted, defaults, vocabulary, (7, 9), thinks)


def test_the_servers_settings_win_over_the_models_defaults() -> None:
    settings = GenerationSettings(temperature=0.1, top_k=3)  # type: ignore[call-arg]
    card = model_card(temperature=0.9, top_p=0.8, top_k=50)
    assert sampling_defaults(settings, card) == SamplingDefaults(0.1, 0.8, 3, OFF)


def test_a_setting_of_zero_is_a_setting() -> None:
    settings = GenerationSettings(temperature=0, top_k=0)  # type: ignore[call-arg]
    assert sampling_defaults(settings, model_card(temperature=0.9, top_k=50)) == SamplingDefaults(
        0.0, 0.0, 0, ToneSettings()
    )


def test_where_nobody_says_anything_temperature_is_0_7_and_filters_are_off() -> None:
    assert sampling_defaults(GenerationSettings(), model_card()) == PLAIN  # type: ignore[call-arg]


def test_the_request_wins_over_every_default() -> None:
    sampling = resolve(wanted(temperature=0, top_p=0.5, top_k=0, min_p=0.05), SamplingDefaults(1, 1, 9, OFF), 100)
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0, 0.5, 0, 0.05)


@pytest.mark.parametrize(("top_k", "kept"), [(99, 99), (100, 0), (5000, 0)])
def test_a_top_k_of_the_whole_vocabulary_is_off(top_k: int, kept: int) -> None:
    assert resolve(wanted(top_k=top_k), PLAIN, 100).top_k == kept


@pytest.mark.parametrize(("seed", "kept"), [(0, 0), (7, 7), (-1, 2**64 - 1), (2**64 - 1, 2**64 - 1)])
def test_a_seed_is_kept_as_64_bits(seed: int, kept: int) -> None:
    assert resolve(wanted(seed=seed), PLAIN, 100).seed == kept


def test_without_a_seed_each_row_has_its_own() -> None:
    seeds = {resolve(wanted(), PLAIN, 100).seed for _ in range(50)}
    assert len(seeds) == 50
    assert max(seeds) > 2**32
