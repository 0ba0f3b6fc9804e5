"""Talks to the API server: client, watches and their tables, Lease, Events, and what objects say."""
