"""Every limit of the protocol, in one place: they bound the memory and time that a peer can cost us."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the protocol. No other module has a literal of this kind."""

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
    traceback_bytes: int = 1 << 16
    """The traceback of a plugin's error; of a longer one the end."""
    fault_frames: int = 16
    """Lines of the author's code in the record of a plugin's failure."""
    fault_agents: int = 8
    """Agents that the record of a plugin's failure names."""
    ticket_bytes: int = 32
    """Tickets are exactly this long."""
    agents: int = 1 << 16
    """Agents of a game."""
    dimension: int = 1 << 17
    """Coordinates of a decision."""
    coordinates: int = 1 << 24
    """Agents times coordinates: all decisions of a round, of which every process holds several copies."""
    edges: int = 1 << 23
    """Entries of W_t, diagonal included."""
    points: int = 1 << 17
    """Points per question and agent, whatever the game grants."""
    memo: int = 1 << 17
    """Numbers that an agent keeps with a question for its update."""
    constraints: int = 1 << 12
    """Rows of g per agent."""
    function_numbers: int = 1 << 26
    """Numbers that make the functions of a round of a built-in adversary, or a matrix of them."""
    hosts: int = 4096
    """Agent hosts of a game."""
    spares: int = 64
    """Agent hosts beyond the number of agents."""
    awaited: int = 64
    """How many of the processes that a host waits for are recorded."""
    rows_bytes: int = 1 << 16
    """Rows of one round that a host keeps to compare repeated ones with; of more it keeps hashes."""
    topology_rounds: int = 1024
    """Rounds in one Topology message."""
    window: int = 64
    """L: how many rounds topology, frames and questions may be ahead of the slowest host and of the score."""
    checkpoint_every: int = 64
    """C: rounds between two checkpoints of a host."""
    report_every: int = 16
    """Rounds between two progress reports, unless `report_seconds` have passed."""
    report_seconds: float = 0.1
    """Seconds after which progress is reported in any case."""
    burst: int = 16
    """Rounds that are played or scored between two replies."""
    burst_bytes: int = 1 << 26
    """What the functions of so many rounds may take, at a number per coordinate, agent and function; or of one."""
    tolerance: float = 1e-9
    """How far outside X a point may lie by rounding, as a share of R(X)."""
    stochastic: float = 1e-12
    """How far a row or column of W_t may miss the sum 1."""
    opening_seconds: float = 5.0
    """How long a stream may take to open, and the request of a call to arrive."""
    unary_seconds: float = 5.0
    """Deadline of every unary call."""
    heartbeat_seconds: float = 5.0
    """Time without a message after which a heartbeat is sent."""
    silence_seconds: float = 15.0
    """Silence that ends a stream."""
    gathering_seconds: float = 15.0
    """Without an expected number of hosts: how long after the last Join the seats are assigned."""
    waiting_seconds: float = 1.0
    """How long a host makes no progress before it reports which processes it waits for."""
    watching_seconds: float = 2.0
    """How long the coordinator stays up after a `status --watch` poll, so that the watcher sees the final status."""
    hold_seconds: float = 5.0
    """How long a host may take to answer Hold."""
    farewell_seconds: float = 60.0
    """How long the coordinator waits for acknowledgements of the game's end, and the others for its reply."""
    backoff_seconds: float = 2.0
    """Longest pause between two attempts to connect."""
    grace_seconds: float = 2.0
    """How long a stopping server waits for its calls to finish."""
    breaches: int = 256
    """Lines of one report of refusals; a server that has counted half as many records no further host names."""
    troubles: int = 16
    """Incidents in a status, the most recent ones."""
    complaints: int = 16
    """How often one process may accuse others or dispute their rows, and how many disputes a host has open."""
    incidents: int = 4096
    """Lines of incidents.jsonl; what happens after so many is logged alone."""
    incidents_alike: int = 256
    """Lines about one process and of one kind among them."""
    scrapes: int = 8
    """Requests for metrics that are answered at the same time."""
    calls: int = 16
    """Calls that one caller has open at a server at the same time; the oldest gives way to one more."""
    connections: int = 8192
    """Connections that a server accepts at the same time beyond those of its hosts, where it may open so many files."""
    files: int = 512
    """Files that a process keeps for other things than connections to its server."""
    refusals_logged: int = 32
    """Refusals of one kind and host that are logged one by one; then each time that their number has doubled."""
    chunk_bytes: int = 1 << 22
    """Largest array that one scoring call asks a plugin to fill."""
    plugin_message_bytes: int = 1 << 26
    """Largest message to or from a plugin outside the adversary's process."""
    plugin_call_bytes: int = 1 << 21
    """Payload of one call of such a plugin, in either direction, unless one agent or one point needs more."""
    plugin_seconds: float = 60.0
    """How long one call of such a plugin may take, and a worker's start."""
    plugin_idle_seconds: float = 3600.0
    """Time without calls after which a plugin may drop an instance."""
    plugin_restarts: int = 5
    """How often such a plugin is played again for one call, because its process was killed or has forgotten it."""
    magnitude: float = 1e70
    """Largest norm of the numbers that a plugin answers at once: products of four such numbers do not overflow."""
    plugin_patience: float = 60.0
    """How long the server of a foreign plugin that is gone is dialled again before the game pauses; a default."""
    slow_call_seconds: float = 5.0
    """How long a call of such a plugin lasts before a line of the log says so; then each time that this has doubled."""
    reasked_rounds: int = 16
    """Rounds of which answers are asked for again, and compared, whenever a plugin is played again."""
    plugin_memory_bytes: int = 1 << 32
    """Address space of a plugin's worker, beyond that of the worker itself."""
    plugin_files: int = 1024
    """Open files of a plugin's worker."""
    plugin_processes: int = 512
    """Processes and threads of a plugin's worker; enforced where it has a user namespace of its own."""


LIMITS = Limits()
