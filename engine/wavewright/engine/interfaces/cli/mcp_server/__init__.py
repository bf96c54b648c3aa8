"""This engine as an MCP server: its commands as tools, its schemas, runs and packages as resources."""
