"""Algorithm 2: credit, advantages, trust region, learners."""
