"""A limit on open calls of health and reflection, so that they cannot use up the calls of the game."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

_Handler = Any  # the types of grpc.aio are generic for mypy only
_Context = Any


class Probes(grpc.aio.ServerInterceptor):
    """Limits how many calls of services other than our own are open at the same time.

    Handlers start before their request has arrived: grpc.aio itself would wait for a request without a time limit, and
    would not report the waiting calls.
    """

    def __init__(self, service: str, most: int) -> None:
        self._own = f"/{service}/"
        self._left = most

    async def intercept_service(
        self, continuation: Callable[[_Handler], Awaitable[_Handler]], handler_call_details: grpc.HandlerCallDetails
    ) -> _Handler:
        """Return the handler of a call, limited unless it belongs to our own service."""
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
        if not self._left:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls for health or reflection")
        self._left -= 1
        try:
            yield
        finally:
            self._left += 1

    def _one(self, answer: _Handler) -> _Handler:
        async def bounded(_requests: object, context: _Context) -> object:
            async with self._place(context):
                return await answer(await context.read(), context)

        return bounded

    def _many(self, answer: _Handler) -> _Handler:
        async def bounded(requests: object, context: _Context) -> AsyncIterator[object]:
            async with self._place(context):
                async for reply in answer(requests, context):
                    yield reply

        return bounded
