"""Shares a function's requests among its containers of several sizes (ComboFunc, section 5.1)."""
