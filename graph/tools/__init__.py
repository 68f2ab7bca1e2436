"""Asks MCP servers for their tools, and makes documents of the answers."""
