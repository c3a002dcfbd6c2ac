"""Who takes part, what is fixed at founding, and where a network stands after each round."""
