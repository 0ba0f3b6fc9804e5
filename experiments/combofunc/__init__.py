"""ComboFunc's comparison: one workload, several ways to scale it, in virtual time and live."""
