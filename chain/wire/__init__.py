"""Bytes: what is hashed, signed, sent and stored, and how it is read back."""
