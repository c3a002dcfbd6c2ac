"""The offloading problem as gymnasium environments, made known to gymnasium by importing this.

`gymnasium.make("policy.env:bfl/EdgeOffload-v0")` imports it itself: what stands before the colon is gymnasium's own way
to say who brings an environment; since 1.0 it reads no entry points.
"""

ENV_ID = "bfl/EdgeOffload-v0"

try:
    import gymnasium
except ModuleNotFoundError:  # an edge server observes (S27), but has no gymnasium
    pass
else:
    gymnasium.register(
        ENV_ID,
        "policy.env.offloading:EdgeOffloadEnv",
        vector_entry_point="policy.env.offloading:EdgeOffloadVectorEnv",
    )
