"""A network of ours beside stock Flower on one machine: seconds, CPU seconds and memory of a round."""
