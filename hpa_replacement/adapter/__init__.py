"""Serves the targets of KneePolicies as metrics for the stock HPA: an aggregated API server.

One GET, in order: `surgekit.process.http_port` (TLS), `server` (paths), `authentication` (the user),
`authorisation` (whether the user may), `table` (the watched policies), `values` (the value, or why not).
"""
