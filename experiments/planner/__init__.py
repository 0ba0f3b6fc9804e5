"""ComboFunc's planner against the exact answer."""
