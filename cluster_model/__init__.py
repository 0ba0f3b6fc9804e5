"""What nodes have, how fast they create containers, and what a place on them costs (eqs 6 to 9)."""
