"""What a MongoDB server does with documents: queries, sort order, update operators, the expressions of a pipeline.

Here lives the part of the language that the ports in memory need, on values as BSON keeps them. Not here: ports,
states, leases; a construct that is not supported raises ``QueryUnsupportedError`` and is never guessed.
"""
