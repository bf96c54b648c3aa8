"""The doors of the engine: command line, Python, live page, MCP server, and fixtures for pytest."""
