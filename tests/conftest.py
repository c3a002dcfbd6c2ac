"""Tests compute with one thread: on a busy machine two threads that wait for each other are slower than one."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
