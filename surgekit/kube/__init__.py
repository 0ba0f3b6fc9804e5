"""Talks to the API server: client, watches and their tables, Lease, Events, scale; reads its objects."""
