"""The targets of KneePolicies as metrics that the stock HPA follows: an aggregated API server.

One GET, in order: `worker` (TLS, whose certificate), `server` (paths), `authentication` (who asks),
`authorisation` (may they), `table` (what the watch knows), `values` (the answer, or why there is none).
"""
