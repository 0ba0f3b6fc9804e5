"""Functions whose pods come and go, under static limits and ours (sections VI-F to VI-H)."""
