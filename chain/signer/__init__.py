"""What a key has signed, kept on disk before anybody sees it, and what it therefore never signs. Needs no chain."""
