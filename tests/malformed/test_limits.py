"""Every limit of the protocol is reached by a test; those that no other test has a reason to reach are reached here."""

import asyncio
import functools
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path

import grpc
import grpc.aio
import pytest
from tests.support.services import LOOPBACK, Game, gathering, small_spec

from slaternet.environment import Environment
from slaternet.errors import RunFailed, Unreachable
from slaternet.limits import LIMITS, Limits
from slaternet.model import ControlDown, Description, Progress, Role, StopAt
from slaternet.network import reconnecting
from slaternet.network.client import call, open_channel
from slaternet.network.grpc_options import client_options, server_options
from slaternet.network.server import Server, serve
from slaternet.network.stream import Stream
from slaternet.refusals import RefusalCounter
from slaternet.service.config import ProcessConfig
from slaternet.service.membership import Applicant, Membership
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.service import HostService
from slaternet_coordinator.shell.monitor import Observations

TESTS = Path(__file__).parents[1]

_PARTS = "unit/proto/test_codec_parts.py"
_MALFORMED = "unit/proto/test_codec_malformed.py"
_CONTROL = "unit/proto/test_codec_malformed_control.py"
_PLUGIN = "unit/proto/test_codec_plugin.py"
_HERE = "malformed/test_limits.py"
_ENDS = "service/test_transport_ends.py"
_STRANGERS = "service/test_transport_strangers.py"
_FLOODS = "service/test_floods.py"
_ADMISSION = "service/test_admission.py"
_FULL = "test_beyond_so_many_connections_none_is_accepted_and_soon_there_is_room_again"
_ISOLATION = "unit/adversary/test_sandbox.py"
_COORDINATOR = "unit/coordinator/test_"

_FAULTS = "unit/proto/test_codec_faults.py"
REACHED = {
    "message_bytes": (_STRANGERS, "test_a_message_above_the_limit_ends_its_own_call_only"),
    "part_bytes": (_PARTS, "test_parts_stay_below_the_message_limit_and_come_back_as_one"),
    "parts": (_PARTS, "test_parts_that_do_not_fit_together_are_refused"),
    "metadata_bytes": (_HERE, "test_headers_are_refused_beyond_the_limit_and_not_by_chance"),
    "name_bytes": (_CONTROL, "test_a_name_that_is_none_cannot_join"),
    "address_bytes": (_CONTROL, "test_a_faulty_wish_to_join_is_malformed"),
    "spec_bytes": (_CONTROL, "test_a_faulty_welcome_is_malformed"),
    "text_bytes": (_CONTROL, "test_a_text_above_its_limit_is_malformed"),
    "ticket_bytes": (_CONTROL, "test_a_faulty_welcome_is_malformed"),
    "agents": (_CONTROL, "test_a_faulty_topology_is_malformed"),
    "dimension": (_PLUGIN, "test_what_breaks_a_rule_is_malformed"),
    "points": (_MALFORMED, "test_a_faulty_question_is_malformed"),
    "memo": (_MALFORMED, "test_a_faulty_question_is_malformed"),
    "constraints": (_MALFORMED, "test_a_faulty_answer_is_malformed"),
    "hosts": (_CONTROL, "test_half_a_million_empty_messages_inside_one_are_refused_before_they_are_looked_at"),
    "spares": (f"{_COORDINATOR}roster.py", "test_there_are_so_many_spares_and_no_more"),
    "awaited": (
        f"{_COORDINATOR}wait_graph.py",
        "test_a_name_that_nobody_has_is_not_blamed_and_what_is_remembered_is_bounded",
    ),
    "rows_bytes": ("unit/agent/test_checkpoints.py", "test_a_row_of_a_round_long_played_is_still_compared"),
    "topology_rounds": (_CONTROL, "test_a_faulty_topology_is_malformed"),
    "window": (
        f"{_COORDINATOR}engine.py",
        "test_the_graph_is_published_never_beyond_the_window_and_in_quarters_of_it",
    ),
    "checkpoint_every": (
        "unit/agent/test_checkpoints.py",
        "test_a_durable_host_gives_out_a_checkpoint_every_few_rounds_and_after_the_last",
    ),
    "report_every": (_HERE, "test_progress_is_reported_every_so_many_rounds"),
    "report_seconds": (_HERE, "test_progress_is_reported_after_so_many_seconds"),
    "burst": (
        "unit/adversary/test_referee.py",
        "test_functions_are_prepared_in_bursts_and_never_beyond_the_last",
    ),
    "tolerance": ("unit/proto/test_sets.py", "test_membership_allows_rounding_and_no_more"),
    "stochastic": (f"{_COORDINATOR}assumption4.py", "test_what_is_not_doubly_stochastic_is_refused"),
    "opening_seconds": (_FLOODS, "test_calls_without_a_request_end_and_the_game_goes_on"),
    "unary_seconds": (_HERE, "test_a_call_that_is_not_answered_is_given_up"),
    "heartbeat_seconds": (_ENDS, "test_heartbeats_keep_a_quiet_link_alive_beyond_every_time_limit"),
    "silence_seconds": (_ENDS, "test_silence_ends_a_link_at_both_ends"),
    "gathering_seconds": (
        "service/test_seats.py",
        "test_without_a_number_of_hosts_the_seats_are_shared_once_nobody_new_comes",
    ),
    "waiting_seconds": (
        "unit/agent/test_session.py",
        "test_a_host_says_for_whom_it_waits_until_it_goes_on",
    ),
    "watching_seconds": (_HERE, "test_who_watches_a_game_is_owed_its_end_for_so_long"),
    "hold_seconds": (_HERE, "test_a_host_that_does_not_answer_hold_is_taken_to_have_entered_all_it_could"),
    "farewell_seconds": (_HERE, "test_a_coordinator_does_not_wait_for_ever_for_who_has_yet_to_come"),
    "backoff_seconds": (_HERE, "test_pauses_grow_to_the_limit_and_no_further"),
    "grace_seconds": (_ENDS, "test_a_server_stops_in_time_though_a_handler_does_not_listen"),
    "breaches": ("unit/proto/test_refusals.py", "test_a_report_that_could_not_be_true_is_refused"),
    "troubles": (f"{_COORDINATOR}monitor.py", "test_the_last_troubles_are_told_with_their_age_each_once"),
    "coordinates": ("malformed/test_files.py", "test_a_game_that_no_memory_would_hold_is_refused"),
    "edges": ("malformed/test_files.py", "test_a_game_that_no_memory_would_hold_is_refused"),
    "function_numbers": ("malformed/test_files.py", "test_a_hostile_spec_is_refused_before_it_takes_memory"),
    "complaints": (
        f"{_COORDINATOR}disputes.py",
        "test_a_host_that_disputes_too_often_is_told_to_keep_what_came_first",
    ),
    "incidents_alike": (
        "unit/coordinator/test_monitor.py",
        "test_a_host_that_comes_and_goes_leaves_room_for_other_incidents",
    ),
    "incidents": ("unit/adversary/test_incident_file.py", "test_no_more_lines_are_written_than_the_limit"),
    "scrapes": (
        "unit/proto/test_metrics.py",
        "test_no_more_are_answered_at_once_than_the_limit_and_none_is_forgotten",
    ),
    "calls": (_ADMISSION, "test_a_host_has_so_many_streams_and_no_more_though_each_shows_its_ticket"),
    "connections": (_ADMISSION, _FULL),
    "files": ("unit/proto/test_file_limit.py", "test_connections_leave_files_for_everything_else"),
    "refusals_logged": (_ADMISSION, "test_of_very_many_refusals_only_some_are_logged_and_all_are_counted"),
    "burst_bytes": (
        "unit/adversary/test_referee.py",
        "test_rounds_prepared_ahead_are_limited_by_the_bytes_of_their_functions",
    ),
    "chunk_bytes": (
        "unit/adversary/test_scoring.py",
        "test_no_piece_of_the_work_exceeds_the_chunk_limit",
    ),
    "plugin_message_bytes": (
        "unit/adversary/test_remote.py",
        "test_an_answer_above_the_message_limit_is_not_taken_in",
    ),
    "plugin_call_bytes": (
        "unit/adversary/test_remote.py",
        "test_what_is_more_than_a_call_carries_is_cut",
    ),
    "plugin_seconds": (
        "service/test_plugins.py",
        "test_while_a_plugin_hangs_the_adversary_lives_and_at_the_deadline_the_game_ends",
    ),
    "plugin_idle_seconds": (
        "unit/adversary/test_worker.py",
        "test_an_instance_without_calls_for_an_hour_is_forgotten",
    ),
    "plugin_restarts": (
        "service/test_plugins.py",
        "test_a_plugin_that_fails_is_named_with_its_round_to_the_operator_alone",
    ),
    "plugin_patience": (
        "unit/adversary/test_remote.py",
        "test_a_server_that_stays_away_longer_than_the_patience_fails_the_plugin",
    ),
    "slow_call_seconds": ("unit/adversary/test_remote.py", "test_a_call_that_lasts_is_reported_while_it_does"),
    "magnitude": ("unit/adversary/test_runtime.py", "test_a_failing_plugin_is_named_with_the_round"),
    "fault_frames": (_FAULTS, "test_what_a_plugin_tells_is_cut_and_cleaned"),
    "fault_agents": (_FAULTS, "test_what_a_plugin_tells_is_cut_and_cleaned"),
    "traceback_bytes": (_FAULTS, "test_what_a_plugin_tells_is_cut_and_cleaned"),
    "reasked_rounds": (
        "unit/adversary/test_recovery.py",
        "test_answers_of_so_many_rounds_at_most_are_asked_for_again_the_newest_among_them",
    ),
    "plugin_memory_bytes": (
        "service/test_plugins.py",
        "test_a_plugin_that_fails_is_named_with_its_round_to_the_operator_alone",
    ),
    "plugin_files": (_ISOLATION, "test_a_worker_has_limits"),
    "plugin_processes": (_ISOLATION, "test_a_worker_has_limits"),
}
"""Where each limit is reached."""

SETTINGS = {
    "grpc.max_receive_message_length": (_STRANGERS, "test_a_message_above_the_limit_ends_its_own_call_only"),
    "grpc.max_send_message_length": (_PARTS, "test_a_message_above_the_limit_is_refused_by_its_sender"),
    "grpc.max_metadata_size": (_HERE, "test_headers_are_refused_beyond_the_limit_and_not_by_chance"),
    "grpc.absolute_max_metadata_size": (_HERE, "test_headers_are_refused_beyond_the_limit_and_not_by_chance"),
    "grpc.server_handshake_timeout_ms": (_STRANGERS, "test_silent_sockets_are_closed"),
    "grpc.max_connection_idle_ms": (_FLOODS, "test_a_game_goes_on_while_one_of_its_servers_is_flooded"),
    "grpc.max_allowed_incoming_connections": (_ADMISSION, _FULL),
    "grpc.max_concurrent_streams": (_ADMISSION, "test_one_connection_has_so_many_calls_and_others_wait_for_their_end"),
}
"""Where each setting of gRPC that bounds what a peer can make us spend is reached."""

_CONVENIENCE = {
    "grpc.keepalive_time_ms",
    "grpc.keepalive_timeout_ms",
    "grpc.http2.max_pings_without_data",
    "grpc.http2.min_recv_ping_interval_without_data_ms",
    "grpc.so_reuseport",
    "grpc.enable_retries",
    "grpc.enable_http_proxy",
    "grpc.service_config_disable_resolution",
    "grpc.initial_reconnect_backoff_ms",
    "grpc.min_reconnect_backoff_ms",
    "grpc.max_reconnect_backoff_ms",
}
"""Settings that bound nothing."""


@functools.cache
def defined_in(path: str) -> set[str]:
    return set(re.findall(r"^(?:async )?def (test_\w+)", (TESTS / path).read_text(), re.MULTILINE))


def test_every_limit_has_a_test_that_reaches_it() -> None:
    assert set(REACHED) == {each.name for each in fields(Limits)}
    assert [(path, test) for path, test in REACHED.values() if test not in defined_in(path)] == []


def test_every_setting_that_bounds_a_peer_has_a_test_that_reaches_it() -> None:
    options = {name for name, _ in server_options(1, LIMITS) + client_options(LIMITS)}
    assert set(SETTINGS) | _CONVENIENCE == options
    assert [(path, test) for path, test in SETTINGS.values() if test not in defined_in(path)] == []


# Limits of connections


@asynccontextmanager
async def serving(limits: Limits = LIMITS, *, hangs: bool = False) -> AsyncIterator[Server]:
    async def answer(data: bytes, caller: object) -> bytes:
        if hangs:
            await asyncio.Event().wait()
        return data

    async def listen(link: Stream) -> None:
        await link.read()

    settings = {"service": "slaternet.v1.Agent", "unary": {"Join": answer}, "streams": {"Gossip": listen}}
    server = await serve(LOOPBACK, hosts=1, limits=limits, **settings)  # type: ignore[arg-type]
    try:
        yield server
    finally:
        await server.stop()


async def test_headers_are_refused_beyond_the_limit_and_not_by_chance() -> None:
    async with serving() as server, grpc.aio.insecure_channel(server.address) as channel:
        join: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/slaternet.v1.Agent/Join")
        for _ in range(5):
            assert await join(b"thin", metadata=(("fat", "x" * (LIMITS.metadata_bytes - 1024)),)) == b"thin"
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await join(b"fat", metadata=(("fat", "x" * LIMITS.metadata_bytes),))
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.slow
async def test_a_call_that_is_not_answered_is_given_up() -> None:
    async with serving(Limits(grace_seconds=0.1), hangs=True) as server, open_channel(server.address) as channel:
        with pytest.raises(Unreachable, match="timed out"):
            await call(channel, "/slaternet.v1.Agent/Join", b"")


async def test_pauses_grow_to_the_limit_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("slaternet.network.reconnecting.asyncio.sleep", sleep)
    backoff = reconnecting.Backoff()
    for _ in range(30):
        await backoff.wait()

    assert LIMITS.backoff_seconds / 2 <= max(pauses) <= LIMITS.backoff_seconds
    assert min(pauses[10:]) >= LIMITS.backoff_seconds / 2


# Limits of a game


def test_who_watches_a_game_is_owed_its_end_for_so_long() -> None:
    now = 100.0
    watch = Observations(lambda: now, RefusalCounter(), now=lambda: now, round=lambda: 0)
    assert watch.linger_seconds == 0.0

    watch.note_watcher()
    assert watch.linger_seconds == LIMITS.watching_seconds
    now += LIMITS.watching_seconds
    assert watch.linger_seconds == 0.0


async def reported(monkeypatch: pytest.MonkeyPatch, folder: Path, seconds: float) -> list[int]:
    """Return which of forty rounds a host reports before the last, if others are to hear of it after some seconds."""
    said: list[tuple[str, int]] = []

    def note(membership: Membership, progress: Progress) -> None:
        said.append((membership.name, progress.round))
        report(membership, progress)

    report = Membership.report
    monkeypatch.setattr(Membership, "report", note)
    environment = Environment(limits=replace(LIMITS, report_seconds=seconds))
    async with gathering(small_spec(rounds=40), hosts=1) as gathered, asyncio.timeout(30):
        game = Game(gathered.address, folder, gathered.tasks, "")
        gathered.start(HostService(ProcessConfig("agent-1", gathered.address, LOOPBACK, environment=environment)))
        gathered.start(AdversaryService(ProcessConfig("adversary", gathered.address, LOOPBACK), folder))
        await game.over()
    return [round for name, round in said if name == "agent-1"]


async def test_progress_is_reported_every_so_many_rounds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    every = LIMITS.report_every
    assert await reported(monkeypatch, tmp_path / "run", 1e9) == list(range(every, 40, every))


async def test_progress_is_reported_after_so_many_seconds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert await reported(monkeypatch, tmp_path / "run", 0.0) == list(range(1, 40))


async def test_a_host_that_does_not_answer_hold_is_taken_to_have_entered_all_it_could() -> None:
    limits = replace(LIMITS, hold_seconds=0.05)
    async with gathering(small_spec(rounds=None), hosts=1, limits=limits) as gathered, asyncio.timeout(30):
        host = await Membership.join(gathered.address, Applicant("agent-1", Role.HOST, "127.0.0.1:1"))
        adversary = await Membership.join(gathered.address, Applicant("adversary", Role.ADVERSARY, "127.0.0.1:2"))
        told: asyncio.Queue[ControlDown] = asyncio.Queue()
        host.listen(told.put_nowait)
        adversary.listen(lambda body: None, opened=lambda: adversary.send(Description(1)))
        attending = [asyncio.create_task(each.attend()) for each in (host, adversary)]

        game = Game(gathered.address, Path(), gathered.tasks, host.run)
        status = await game.until(lambda status: status.phase == "playing")
        await game.stop()
        while not isinstance(body := await told.get(), StopAt):
            pass

        assert body.round == status.published
        for each in attending:
            each.cancel()


async def test_a_coordinator_does_not_wait_for_ever_for_who_has_yet_to_come() -> None:
    limits = replace(LIMITS, farewell_seconds=0.05)
    async with gathering(small_spec(rounds=None), hosts=2, limits=limits) as gathered, asyncio.timeout(30):
        await Membership.join(gathered.address, Applicant("agent-1", Role.HOST, "127.0.0.1:1"))  # no stream follows
        failing = await Membership.join(gathered.address, Applicant("adversary", Role.ADVERSARY, "127.0.0.1:2"))
        failing.fail(RunFailed("enough"))
        with pytest.raises(RunFailed, match="enough"):
            await failing.attend()
        with pytest.raises(RunFailed, match="the game failed"):
            await gathered.tasks[0]
