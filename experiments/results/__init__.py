"""The page docs/results.md, written from the JSON files of benches."""
