"""FCMA's solver against the authors' recorded costs."""
