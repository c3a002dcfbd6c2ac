"""The posts of a round: the board they are on, who checks them, who leads, how a round ends."""
