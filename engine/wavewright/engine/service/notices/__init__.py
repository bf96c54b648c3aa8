"""Notices: what people are told of while nobody watches."""
