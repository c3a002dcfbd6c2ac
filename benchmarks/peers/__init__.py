"""The same small job with other frameworks, for docs/compare.md."""
