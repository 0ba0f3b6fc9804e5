"""Plans which containers of a function to keep, resize, remove and create, and on which nodes. Pure."""
