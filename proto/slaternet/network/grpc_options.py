"""Options of gRPC; proto/README.md gives the reason for each."""

from slaternet.limits import Limits
from slaternet.network.file_limit import connections_at_once

Options = list[tuple[str, int | str]]


def _common_options(limits: Limits) -> Options:
    return [
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.max_send_message_length", limits.message_bytes),
        ("grpc.max_metadata_size", limits.metadata_bytes),
        # otherwise headers between one and two times this size are refused at random
        ("grpc.absolute_max_metadata_size", limits.metadata_bytes),
        ("grpc.keepalive_time_ms", _milliseconds(limits.silence_seconds)),
        ("grpc.keepalive_timeout_ms", _milliseconds(limits.unary_seconds)),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def calls_at_once(hosts: int) -> int:
    """Return how many calls that many hosts may have open: control, reveal and gossip streams, and dialling anew."""
    return 4 * hosts + 32


def server_options(hosts: int, limits: Limits) -> Options:
    """Return the settings of a server for that many hosts."""
    return [
        *_common_options(limits),
        # below the clients' keepalive time, otherwise they are disconnected for pinging too often
        ("grpc.http2.min_recv_ping_interval_without_data_ms", _milliseconds(limits.silence_seconds / 3)),
        ("grpc.server_handshake_timeout_ms", _milliseconds(limits.opening_seconds)),
        ("grpc.max_connection_idle_ms", _milliseconds(limits.opening_seconds)),
        ("grpc.max_allowed_incoming_connections", connections_at_once(hosts, limits)),
        ("grpc.max_concurrent_streams", calls_at_once(hosts)),
        ("grpc.so_reuseport", 0),
    ]


def client_options(limits: Limits) -> Options:
    """Return the settings of a channel."""
    return [
        *_common_options(limits),
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.initial_reconnect_backoff_ms", _milliseconds(limits.backoff_seconds / 20)),
        ("grpc.min_reconnect_backoff_ms", _milliseconds(limits.opening_seconds)),
        ("grpc.max_reconnect_backoff_ms", _milliseconds(limits.backoff_seconds)),
    ]


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)
