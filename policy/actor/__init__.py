"""The networks that decide, their action as a distribution, their weights, the policy at work."""
