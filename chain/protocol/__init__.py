"""Rules: the registry contract, genesis, what a block must obey without state, whose turn it is, proofs."""
