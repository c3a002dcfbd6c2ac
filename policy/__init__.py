"""What a round looks like before it is trained: the state of the devices and who decides on it."""
