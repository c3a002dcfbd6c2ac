"""What a person sees: tables, plots, progress."""
