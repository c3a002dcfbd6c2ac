"""From a run folder, a kit or a node to a `Snapshot`, and what is read on demand beside it."""
