"""Calls of a plugin outside this process that last long are reported while they last."""

import asyncio

import structlog

from slaternet.limits import LIMITS
from slaternet_adversary.plugin.remote import Remote

log = structlog.get_logger()

_LOOK_SECONDS = 1.0


async def report_slow_calls(
    remote: Remote, first: float = LIMITS.slow_call_seconds, look: float = _LOOK_SECONDS
) -> None:
    """Log each call that lasts `first` seconds, and again whenever that has doubled; until it is cancelled."""
    clock = asyncio.get_running_loop().time
    seen, began, due = None, 0.0, first
    while True:
        await asyncio.sleep(look)
        if (call := remote.calling) is None or call is not seen:
            seen, began, due = call, clock(), first
        elif (lasted := clock() - began) >= due:
            due *= 2
            method, one, last = call
            rounds = f"{one}" if one == last else f"{one} to {last}"
            log.warning("the plugin has not answered yet", call=method, round=rounds, seconds=round(lasted))
