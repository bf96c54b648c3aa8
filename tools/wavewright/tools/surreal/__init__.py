"""Connections to SurrealDB, embedded or on a server, for the packs that keep records there."""
