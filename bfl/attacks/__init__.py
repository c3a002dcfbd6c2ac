"""Who misbehaves in a simulation, when and how (docs/attacks.md)."""
