"""How many calls each caller may have open at a server, so that nobody uses up the room of others.

A new call is never refused: where its caller has no room left, the oldest call gives way. So a flood cannot hold
places, and a process that sends its ticket with the first message, as those of a game do, has shown it before its turn.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from slaternet.errors import Malformed, SlaternetError, Unreachable
from slaternet.network import certificates as tls
from slaternet.network.certificates import Caller
from slaternet.network.grpc_errors import abort

_Handler = Any  # the types of grpc.aio are generic for mypy only
_Context = Any

_Account = Caller | str | None
"""Whose calls are counted together: those of one certificate, of one host by its ticket, or of all strangers."""


class Admission:
    """The places of a server: `strangers` for all without certificate or ticket, `each` for every known caller.

    A call begins as one of its certificate, or of a stranger; it is counted as one of a host once that has shown its
    ticket.
    """

    def __init__(self, strangers: int, each: int) -> None:
        self._strangers = strangers
        self._each = each
        # the open calls in the order of their coming, by what ends them early
        self._calls: dict[_Account, dict[asyncio.Timeout, None]] = {}

    @asynccontextmanager
    async def place(self, caller: Caller | None) -> AsyncIterator[Callable[[str], None]]:
        """Run a call in the block; Unreachable where it must give way.

        What is yielded is to be called with the name of the host whose ticket the call has shown.
        """
        account: _Account = caller
        call = asyncio.timeout(None)

        def transfer(host: str) -> None:
            nonlocal account
            if not call.expired():
                call.reschedule(None)  # it had to give way a moment ago: not any more
                self._leave(account, call)
                account = host
                self._enter(account, call)

        try:
            async with call:
                self._enter(account, call)
                yield transfer
        except TimeoutError:
            if not call.expired():
                raise
            raise Unreachable("it has too many callers; try again, and see who else calls it") from None
        finally:
            self._leave(account, call)

    def _enter(self, account: _Account, call: asyncio.Timeout) -> None:
        calls = self._calls.setdefault(account, {})
        if len(calls) >= (self._strangers if account is None else self._each):
            oldest = next(iter(calls))
            del calls[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())
        calls[call] = None

    def _leave(self, account: _Account, call: asyncio.Timeout) -> None:
        calls = self._calls.get(account, {})
        calls.pop(call, None)
        if not calls:
            self._calls.pop(account, None)


class Probes(grpc.aio.ServerInterceptor):
    """Gives places to the calls of services other than our own: health and reflection.

    Handlers start before their request has arrived: grpc.aio itself would wait for a request without a time limit, and
    would not report the waiting calls.
    """

    def __init__(self, service: str, admission: Admission) -> None:
        self._own = f"/{service}/"
        self._admission = admission

    async def intercept_service(
        self, continuation: Callable[[_Handler], Awaitable[_Handler]], handler_call_details: grpc.HandlerCallDetails
    ) -> _Handler:
        """Return the handler of a call, with a place unless it belongs to our own service, which has its own."""
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method.startswith(self._own):
            return handler
        coders = handler.request_deserializer, handler.response_serializer
        if handler.unary_unary:
            return grpc.stream_unary_rpc_method_handler(self._one(handler.unary_unary), *coders)
        if handler.unary_stream:
            return grpc.stream_stream_rpc_method_handler(self._one(handler.unary_stream), *coders)
        return grpc.stream_stream_rpc_method_handler(self._many(handler.stream_stream), *coders)

    @asynccontextmanager
    async def _place(self, context: _Context) -> AsyncIterator[None]:
        try:
            async with self._admission.place(tls.caller_of(context.auth_context())):
                yield
        except SlaternetError as error:
            await abort(context, error)
        except DecodeError:
            await abort(context, Malformed("the bytes are not a message of the kind expected here"))

    def _one(self, answer: _Handler) -> _Handler:
        async def placed(_requests: object, context: _Context) -> object:
            async with self._place(context):
                if (request := await context.read()) is grpc.aio.EOF:
                    raise Malformed("there is no request")
                return await answer(request, context)

        return placed

    def _many(self, answer: _Handler) -> _Handler:
        async def placed(requests: object, context: _Context) -> None:
            async with self._place(context):
                async for reply in answer(requests, context):
                    await context.write(reply)

        return placed
