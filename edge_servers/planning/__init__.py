"""Who offloads where: the plan of a round, from state and planner."""
