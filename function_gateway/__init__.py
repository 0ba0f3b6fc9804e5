"""Distribute requests to containers of several sizes in proportion to size (ComboFunc, section 5.1)."""
