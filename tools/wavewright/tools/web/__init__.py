"""The pack `web`: pages as text, and searches over a local index or a service."""
