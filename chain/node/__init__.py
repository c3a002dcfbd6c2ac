"""A node: pool, execution, what admits a block, fork choice. py-evm is imported here only."""
