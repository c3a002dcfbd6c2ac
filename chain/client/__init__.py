"""What everybody uses: keys, a connection to a node or network, the ledger, founding."""
