"""The store of validated lore and of research checkpoints: SurrealDB, embedded or on a server."""
