"""RLP that nobody's encoder makes."""


def listed(content: bytes) -> bytes:
    """A list with this content, whatever that is."""
    size = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return (bytes([0xC0 + len(content)]) if len(content) < 56 else bytes([0xF7 + len(size)]) + size) + content
