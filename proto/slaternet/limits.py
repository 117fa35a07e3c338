"""Every number that bounds what a peer can make us spend, in one place."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the protocol. No literal of this kind stands anywhere else."""

    message_bytes: int = 1 << 20
    """Largest message gRPC accepts; larger payloads travel in parts."""
    part_bytes: int = 1 << 19
    """Payload of one part."""
    parts: int = 4096
    """Parts of one payload."""
    metadata_bytes: int = 8192
    """Headers of one call."""
    name_bytes: int = 64
    """Names of runs and processes."""
    address_bytes: int = 256
    """HOST:PORT."""
    spec_bytes: int = 1 << 18
    """The resolved spec, as TOML."""
    text_bytes: int = 1024
    """Sentences for the operator."""
    ticket_bytes: int = 32
    """Tickets are exactly this long."""
    agents: int = 1 << 16
    """Agents of a game."""
    dimension: int = 1 << 17
    """Coordinates of a decision."""
    points: int = 1 << 17
    """Points per question and agent, before the game's own grant is looked at."""
    constraints: int = 1 << 12
    """Rows of g per agent."""
    hosts: int = 4096
    """Agent hosts of a game."""
    spares: int = 64
    """Agent hosts beyond the number of agents."""
    awaited: int = 64
    """How many of those whom a host waits for are remembered."""
    topology_rounds: int = 1024
    """Rounds in one Topology message."""
    window: int = 64
    """L: how many rounds topology, frames and questions may run ahead of the slowest host and of the score."""
    checkpoint_every: int = 64
    """C: rounds between two checkpoints of a host."""
    report_every: int = 16
    """Rounds between two progress reports, unless `report_seconds` have passed."""
    report_seconds: float = 0.1
    """Seconds after which progress is reported whatever the round."""
    burst: int = 16
    """Rounds whose functions are fixed, or that are scored, in one go between replies."""
    tolerance: float = 1e-9
    """Of R(X): how far outside X a point may lie by rounding."""
    stochastic: float = 1e-12
    """How far a row or column of W_t may miss the sum 1."""
    opening_seconds: float = 5.0
    """How long a stream may take to open, and a call to bring its request."""
    unary_seconds: float = 5.0
    """Deadline of every unary call."""
    heartbeat_seconds: float = 5.0
    """Quiet time after which a heartbeat is sent."""
    silence_seconds: float = 15.0
    """Silence that ends a stream."""
    gathering_seconds: float = 15.0
    """Without a number of hosts to wait for: how long after the newest has come the seats are shared out."""
    waiting_seconds: float = 1.0
    """How long a host comes no further before it says whom it waits for."""
    watching_seconds: float = 2.0
    """How long the coordinator stays after a question of one who asks again, so that he hears the end."""
    hold_seconds: float = 5.0
    """How long a host may take to answer Hold."""
    farewell_seconds: float = 60.0
    """How long the coordinator waits for acknowledgements when the game is over, and others until it has heard them."""
    backoff_seconds: float = 2.0
    """Longest pause between two attempts to connect."""
    grace_seconds: float = 2.0
    """How long a server lets calls finish when it stops."""
    breaches: int = 256
    """Lines of one report of breaches; a server that has counted half as many names no further hosts."""
    troubles: int = 16
    """What went wrong last, as a status tells it."""
    scrapes: int = 8
    """Requests for metrics that are answered at once."""
    probes: int = 8
    """Calls for health or reflection that a server lets be open at once."""
    chunk_bytes: int = 1 << 22
    """Largest array the referee's scoring asks a plugin to fill at once."""
    plugin_message_bytes: int = 1 << 26
    """Largest message to or from a plugin outside the adversary's process."""
    plugin_call_bytes: int = 1 << 21
    """Payload of one call of such a plugin, either way, unless one agent's or one point's is larger."""
    plugin_seconds: float = 60.0
    """How long one call of such a plugin may take, and a worker's start."""
    plugin_idle_seconds: float = 3600.0
    """Time without calls after which a plugin may forget an instance."""
    plugin_memory_bytes: int = 1 << 32
    """Address space of a plugin's worker beyond what it needs itself."""
    plugin_files: int = 1024
    """Files that a plugin's worker may hold open."""
    plugin_processes: int = 512
    """Processes and threads of a plugin's worker; counted where it has a user namespace of its own."""


LIMITS = Limits()
