"""The edge servers: they plan a round, aggregate their clusters, agree by gossip and publish the model.

Start with `round.py`.
"""
