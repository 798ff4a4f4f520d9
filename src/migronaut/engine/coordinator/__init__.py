"""The coordinator: brings a migration from one step to the next, under a lock that it holds for that step only.

Here lives planning a pass, closing it, counting what is left, and what a migration waits for. Not here: the choice of
the step (``core.coordinator``) and the rewriting of documents (``lane``).
"""
