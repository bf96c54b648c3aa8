"""MCP servers as tools: what servers offer, the lock that pins it, and signatures from the lock."""
