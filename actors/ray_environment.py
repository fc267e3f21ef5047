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
    # An idle server should be idle: these halve what Ray burns while nothing happens. On few cores each percent of a
    # core that it burns is a percent that every answer takes longer.
    "RAY_SERVE_CONTROL_LOOP_INTERVAL_S": "1",
    "RAY_SERVE_METRICS_EXPORT_INTERVAL_MS": "5000",
    # What autoscaling follows is looked at once between two reports, not five times.
    "RAY_SERVE_AUTOSCALING_METRIC_RECORD_INTERVAL_FACTOR": "1",
    "RAY_event_stats": "0",
    "RAY_task_events_report_interval_ms": "5000",
    "RAY_raylet_report_resources_period_milliseconds": "1000",
    "RAY_memory_monitor_refresh_ms": "1000",
    # New log files are looked for every half second instead of ten times a second.
    "RAY_LOG_MONITOR_MANY_FILES_THRESHOLD": "0",
    # The dashboard and its agent look less often at themselves.
    "EVENT_AGENT_REPORT_INTERVAL_SECONDS": "1",
    "RAY_DASHBOARD_AGENT_LOOP_MONITOR_INTERVAL_S": "5",
    "RAY_DASHBOARD_AGENT_CHECK_PARENT_INTERVAL_S": "2",
    "METRICS_RECORD_INTERVAL_S": "15",
    "REPORTER_UPDATE_INTERVAL_MS": "10000",
    "SCAN_EVENT_DIR_INTERVAL_SECONDS": "10",
    "RAY_DASHBOARD_AGGREGATOR_AGENT_CHECK_MAIN_THREAD_LIVENESS_INTERVAL_SECONDS": "2",
    # A replica may take its time to stop: it answers what is open first.
    "RAY_SERVE_SHUTDOWN_TIER_TIMEOUT_S": "150",
}
