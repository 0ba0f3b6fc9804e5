"""Control a running HAProxy."""
