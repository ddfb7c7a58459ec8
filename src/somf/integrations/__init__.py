"""Adapters to the tools of a field, each of them behind an extra of its own."""
