"""A server of the Model Context Protocol, for agents: one tool."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("tea")


@server.tool()
def brew(minutes: int) -> str:
    """Brew tea."""
    return f"brewed for {minutes} minutes"


server.run()
