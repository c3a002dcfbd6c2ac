"""Keys that are made where they stay (D6): a token for each machine, its request, and what it is given for it."""
