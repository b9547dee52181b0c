"""Every metric that the service has: the one place to which rules, dashboard and page are compared.

By the name that Prometheus stores; of a histogram that is the name without `_bucket`."""

from typing import Final

METRICS: Final = frozenset(
    "content_gateway_" + name
    for name in (
        "build_info",
        "workers",
        "workers_replaced_total",
        "limits_store_up",
        "limits_store_rounds_total",
        "ready",
        "http_requests_total",
        "http_request_duration_seconds",
        "http_requests_in_flight",
        "http_connections",
        "http_problems_total",
        "access_log_lost_total",
        "name_answers_total",
        "lookups_total",
        "lookup_duration_seconds",
        "ipns_lookups_total",
        "ipns_lookup_duration_seconds",
        "upstream_requests_total",
        "upstream_request_duration_seconds",
        "upstream_endpoint_up",
        "chain_listener_up",
        "chain_listener_silent_seconds",
        "chain_listener_events_total",
        "backend_up",
        "backend_rejecting_writes",
        "contents",
        "oldest_waiting_seconds",
        "ledger_queued_writes",
        "ledger_group_size",
        "ledger_commit_duration_seconds",
        "ledger_connections_in_use",
        "ledger_connections_limit",
        "ledger_connections_waiting",
        "event_loop_lag_seconds",
        "disk_free_bytes",
        "file_bytes",
        "log_events_total",
    )
)
# Of prometheus_client: what every process and every Python has.
OF_THE_LIBRARY: Final = frozenset(
    (
        "process_cpu_seconds_total",
        "process_max_fds",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
        "process_virtual_memory_bytes",
        "python_gc_collections_total",
        "python_gc_objects_collected_total",
        "python_gc_objects_uncollectable_total",
    )
)
