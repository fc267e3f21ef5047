"""The environment that Ray should start in. Ray reads it once, so it is set before Ray is, by whoever starts it:

    env $(troupe environment) serve run configs/local.yaml

`make serve` and `troupe serve` do so by themselves. A bare `serve run` works too, on Ray's own defaults.
"""

from __future__ import annotations

RAY_ENVIRONMENT = {
    # Every port on loopback: whoever reaches Ray's own ports can run code. A cluster of several machines needs "1".
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Nothing is reported to anybody.
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray would run every actor fifteen steps below normal priority; the engine is what people wait for.
    "RAY_worker_niceness": "0",
    # Actors that asked for no GPU still see it.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # An idle server should be idle: these three halve what Ray burns while nothing happens.
    "RAY_SERVE_CONTROL_LOOP_INTERVAL_S": "0.5",
    "RAY_event_stats": "0",
    "RAY_task_events_report_interval_ms": "5000",
    # A replica may take its time to stop: it answers what is open first.
    "RAY_SERVE_SHUTDOWN_TIER_TIMEOUT_S": "150",
}
