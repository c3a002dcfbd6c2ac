"""What an audit tells people: findings, evidence, models, proofs to hand over."""
