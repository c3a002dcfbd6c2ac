"""A rehearsal (D6): a whole network as real processes of this computer, from its kits to its audits."""
