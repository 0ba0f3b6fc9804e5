"""Variant `paper`: the four phases of FCMA as printed. Additions are marked in the code."""
