"""What follows from a ledger, computed again by whoever wants to know; no server needed."""
