"""What the policy is compared with: simple rules, and learned rivals of a library."""
