"""What files, chains and machines say, as facts: bounded, cleaned, believed nothing more than what fits together."""
