"""Python functions as tools: their schemas, the registry, and signatures read from files."""
