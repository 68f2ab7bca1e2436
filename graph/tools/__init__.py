"""Asks MCP servers for their tools, and makes documents of what they say."""
