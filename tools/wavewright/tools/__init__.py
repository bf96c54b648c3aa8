"""What a step can call: the registry of typed functions, and the packs."""
