"""Variant `paper`: the four phases of FCMA as printed. What goes beyond them says so where it stands."""
