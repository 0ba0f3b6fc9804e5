"""`surgekit report`: one HTML page of benches' results, with plots beside the papers' numbers."""
