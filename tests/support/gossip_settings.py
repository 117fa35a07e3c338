"""Settings of [gossip] as a user writes them, and graphs to play them on."""

CODES = {
    "float32": ("gossip.code=float32",),
    "float16": ("gossip.code=float16",),
    "float16 on differences": ("gossip.code=float16", "gossip.difference=true"),
    "grid": ("gossip.code=grid", "gossip.width=0.05"),
    "grid on differences": ("gossip.code=grid", "gossip.width=10.0", "gossip.power=1.0", "gossip.difference=true"),
    "top-k": ("gossip.code=top-k", "gossip.keep=3"),
    "random-k": ("gossip.code=random-k", "gossip.keep=2"),
    "sign": ("gossip.code=sign",),
    "levels": ("gossip.code=levels", "gossip.levels=16"),
}
TRIGGER = ("gossip.trigger=20.0",)
GRAPHS = {
    "paper": ("graph.name=paper",),
    "ring": ("graph.name=ring",),
    "erdos-renyi": ("graph.name=erdos-renyi", "graph.degree=2.0"),
}
"""A random graph, a fixed one, and one that is sparse."""

GAMES = {
    **CODES,
    **{f"{name}, triggered": (*code, *TRIGGER) for name, code in CODES.items()},
    "exact, triggered": TRIGGER,
}
"""Every code with and without a trigger."""
