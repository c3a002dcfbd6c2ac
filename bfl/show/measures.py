"""What a number of a run is, wherever it is shown."""

LAST_EVALUATIONS = 5
"""Whose mean is a run's accuracy: in its summary, on its pictures, on its page"""

LATENCY_TERMS = {
    "T": "T_learn + T_cons + T_mine, the paper's measure: what all devices need, added up",
    "T_learn": "to offload, to train and to upload, added up over the devices",
    "T_cons": "gossip between the edge servers",
    "T_mine": "to mine and to spread the block, added up over the devices",
    "T_wall": "what a clock on the wall would show: devices work side by side, the first seal counts",
}
"""What the simulated seconds of a round are, wherever they are printed"""
