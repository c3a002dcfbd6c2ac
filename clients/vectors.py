"""Networks as flat vectors, for those who compute with models and train none: no torch here."""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
"""All parameters of a network, flat, in the order of `network.parameters()`."""
