"""What the policy is compared with: simple rules, library agents, the near-optimum and its bound."""
