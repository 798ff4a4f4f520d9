"""The ports on PyMongo: states, partitions and leases, tickets, locks, the changelog, documents."""
