"""The company: which actors there are, as Serve deployments. The only caller of `serve.deployment` and `bind`.

`build` is the `import_path` of configs/*.yaml. The actor classes stay plain; deployments.py has what stands around each
of them. The GPU lease is no deployment but a named actor of the machine: it must outlive every deployment that asks
for it (actors/gpu_lease/stage.py).
"""

from __future__ import annotations

import logging
from typing import Any

from ray import serve
from ray.serve import Application
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, RequestRouterConfig
from ray.serve.schema import LoggingConfig

from actors import allocator, blas, curtain, deployments, logs
from actors.errors import StartError
from actors.models.lineup import line_up
from actors.models.whisper_card import NONE
from actors.server_settings import misgivings
from actors.settings import Settings, parse

log = logging.getLogger("troupe.app")

CPU_SHARE = 0.01
"""Ray schedules by declared CPUs; the operating system does the real sharing."""

NO_LIMIT = 100_000
"""Calls in flight a replica: the actors bound their own queues and say so in words."""


def build(args: dict[str, Any]) -> Application:
    """The application for a configuration. Prepares the models, which may take as long as a download.

    A configuration or model that does not allow a start ends `serve run` with one sentence.

    Raises:
        StartError: the same sentence, for whoever else called.
    """
    with curtain.falls_on_failure():
        settings = parse(args)
        logs.configure(settings.logging)
        for sentence in misgivings(args, settings.server):
            log.warning(sentence)
        lineup = line_up(settings, progress=True)
        if lineup.generates and not lineup.served.eos_token_ids:
            log.warning("%s names no end token; answers end at max_tokens only", lineup.served.model_id)
    engine_environment = blas.engine_environment(settings.generation) | allocator.environment()
    manager = writer = scheduler = embedder = None
    if lineup.generates:
        manager = _deployment(deployments.Manager, "PromptCacheManager", blas.quiet_environment()).bind(settings)
        if settings.ssd_cache.enabled:
            writer = _deployment(deployments.SpillWriter, "SpillWriter", blas.quiet_environment()).bind(settings)
        scheduler = _deployment(
            deployments.Scheduler, "GenerationScheduler", engine_environment, health_check_timeout_s=60
        ).bind(settings, lineup.served, manager, writer)
    if lineup.embedding is not None:
        # An embedding model that is served alone is loaded at once: nothing else would say that it cannot be.
        eager = not lineup.generates
        embedder = _deployment(deployments.Embedder, "Embedder", engine_environment, health_check_timeout_s=60).bind(
            settings, lineup.embedding, eager
        )
    transcriber = None
    if settings.transcription.model != NONE or lineup.transcribes:
        # A Whisper model that is served alone is loaded at once, as an embedding model is.
        options = {"health_check_timeout_s": 60, **_session_scaling(settings)}
        transcriber = _deployment(deployments.Transcriber, "Transcription", engine_environment, **options).bind(
            settings, lineup.speech, lineup.transcribes
        )
    responses = _deployment(deployments.ResponseStore, "ResponseStore", blas.quiet_environment()).bind(settings)
    library = _deployment(deployments.Library, "Library", blas.quiet_environment()).bind(settings)
    return _deployment(deployments.Ingress, "Ingress", blas.quiet_environment(), **_scaling(settings)).bind(
        settings, lineup, scheduler, manager, responses, library, embedder, writer, transcriber
    )


def _deployment(actor: Any, name: str, environment: dict[str, str], **options: Any) -> Any:
    options = {"num_replicas": 1, "health_check_timeout_s": 30, "graceful_shutdown_timeout_s": 150} | options
    if "autoscaling_config" in options:
        del options["num_replicas"]
    deployment: Any = serve.deployment(actor)
    return deployment.options(
        name=name,
        ray_actor_options={"num_cpus": CPU_SHARE, "runtime_env": {"env_vars": environment}},
        max_ongoing_requests=NO_LIMIT,
        health_check_period_s=2,
        max_constructor_retry_count=3,
        logging_config=LoggingConfig(log_level="WARNING", enable_access_log=False),
        **options,
    )


def _scaling(settings: Settings) -> dict[str, Any]:
    low, high = settings.ingress.min_replicas, settings.ingress.max_replicas
    if high < low:
        raise StartError(f"ingress.max_replicas is {high}, below ingress.min_replicas {low}")
    if high == low:
        return {"num_replicas": low}
    return {
        "autoscaling_config": AutoscalingConfig(
            min_replicas=low,
            max_replicas=high,
            initial_replicas=low,
            upscale_delay_s=2,
            downscale_delay_s=60,
            policy=AutoscalingPolicy(
                policy_function="actors.ingress.scaling:ByOpenRequests",
                policy_kwargs={"target": settings.ingress.target_requests},
            ),
        )
    }


def _session_scaling(settings: Settings) -> dict[str, Any]:
    wanted = settings.audio_sessions
    router: dict[str, Any] = {
        "request_router_class": "actors.transcription.router:PinningRouter",
        "request_router_kwargs": {"target_sessions": wanted.target_sessions},
        "request_routing_stats_period_s": 2,
    }
    return {
        "request_router_config": RequestRouterConfig(**router),
        "autoscaling_config": AutoscalingConfig(
            min_replicas=wanted.min_replicas,
            max_replicas=wanted.max_replicas,
            initial_replicas=wanted.min_replicas,
            upscale_delay_s=0,
            downscale_delay_s=wanted.downscale_delay_s,
            # How many sessions there are is told every other second, so that replicas are there when they are needed.
            metrics_interval_s=2,
            look_back_period_s=4,
            policy=AutoscalingPolicy(
                policy_function="actors.transcription.scaling:ByOpenSessions",
                policy_kwargs={"target": wanted.target_sessions},
            ),
        ),
    }
