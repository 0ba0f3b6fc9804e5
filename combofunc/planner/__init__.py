"""Which containers of a function to keep, resize, remove and create, and where: ComboFunc's Algorithm 1."""
