"""The tools of Sluice for agents over MCP, for two hosts: `sluice-mcp` on stdio, which is a client of a running server,
and the server's own door `/mcp`.

`tools` holds the tools, over the calls of a `Port`. Needs the extra `sluice-client[mcp]`.
"""
