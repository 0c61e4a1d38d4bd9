"""Serve the tools over the Model Context Protocol, on standard input and output."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio.to_thread import run_sync
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ProtocolTool

from sojourn.mcp.answers import ROWS, messages_of, result_of, shortened, text_of
from sojourn.mcp.arguments import check_values, command_arguments
from sojourn.mcp.listing import LIMIT, listing
from sojourn.mcp.places import Places
from sojourn.mcp.processes import Processes
from sojourn.mcp.tools import INSTRUCTIONS, SOURCES, Tool, tools
from sojourn.model.errors import ArgumentError, SojournError
from sojourn.model.formatting import printable
from sojourn.model.version import version

_READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


class Service:
    """The answers to calls.

    Attributes:
        tools: by name.
        processes: those of running calls.
    """

    def __init__(self, places: Places, *, seconds: float, most_bytes: int) -> None:
        """Read from ``places``; a call takes ``seconds`` at most, and an answer has ``most_bytes`` at most."""
        self.tools = tools()
        self.processes = Processes(seconds)
        self._places, self._most_bytes = places, most_bytes

    async def call(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Return the answer of a tool; an error is one, too, in the command's sentence."""
        try:
            return await self._answer(name, {key: value for key, value in arguments.items() if value is not None})
        except (SojournError, OSError) as error:  # also a machine without memory for a process
            text = self._places.without_passwords(printable(error, 10_000))
            return CallToolResult(content=[TextContent(text=text)], is_error=True)

    async def _answer(self, name: str, values: Mapping[str, Any]) -> CallToolResult:
        tool = self.tools.get(name)
        if tool is None:
            raise ArgumentError(f"{printable(name)} is not a tool; the tools: {', '.join(self.tools)}")
        check_values(values, tool.schema["properties"], tool.schema.get("required", ()))
        if name == SOURCES:
            limit = int(values.get("limit", LIMIT))
            return self._result(await self._in_thread(lambda: listing(self._places, values.get("under"), limit)))
        arguments = await self._in_thread(lambda: self._command(tool, values))
        store = any(argument.partition("=")[2] in self._stores or argument in self._stores for argument in arguments)
        finished = await self.processes.run(arguments, store=store)
        result = shortened(result_of(finished), int(values.get("rows", ROWS)))
        return self._result(result, self._places.without_passwords(messages_of(finished)))

    async def _in_thread(self, function: Callable[[], Any]) -> Any:
        """Return what a function returns that looks at files, which may hang."""
        with anyio.move_on_after(self.processes.seconds):
            return await run_sync(function, abandon_on_cancel=True)
        raise self.processes.too_slow()

    def _command(self, tool: Tool, values: Mapping[str, Any]) -> list[str]:
        return [tool.name, *tool.fixed, *command_arguments(tool.options, values, self._places)]

    @property
    def _stores(self) -> frozenset[str]:
        return frozenset(self._places.stores.values())

    def _result(self, values: dict[str, Any], messages: str = "") -> CallToolResult:
        content: list[ContentBlock] = [TextContent(text=text_of(values, self._most_bytes))]
        content += [TextContent(text=messages)] if messages else []
        return CallToolResult(content=content, structured_content=values)


def serve(places: Places, *, seconds: float, most_bytes: int) -> None:
    """Serve until standard input ends, or a signal arrives.

    Args:
        places: what the tools read.
        seconds: the time limit of a call.
        most_bytes: the largest answer.
    """
    anyio.run(_serve, Service(places, seconds=seconds, most_bytes=most_bytes))


async def _serve(service: Service) -> None:
    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_protocol_tool(tool) for tool in service.tools.values()])

    async def call_tool(_: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        return await service.call(params.name, params.arguments or {})

    server = Server(
        "sojourn", version=version(), instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )
    async with anyio.create_task_group() as group:
        group.start_soon(_end_on_signal, service)
        async with stdio_server() as (messages, answers):
            await server.run(messages, answers, server.create_initialization_options())
        group.cancel_scope.cancel()


async def _end_on_signal(service: Service) -> None:
    """End the processes and this one on a signal.

    A thread waits for the next line of standard input, which nothing can interrupt: the interpreter would wait for it.
    """
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            await service.processes.end()
            sys.stderr.flush()
            os._exit(128 + number)


def _protocol_tool(tool: Tool) -> ProtocolTool:
    return ProtocolTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.schema),
        annotations=_READ_ONLY,
    )
