"""What a chain remembers, in one SQLite file."""
