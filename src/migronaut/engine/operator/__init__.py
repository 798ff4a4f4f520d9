"""The operator: what people ask of a migration.

Here lives registering, controls, status and the drift poll. Not here: how it is shown (``display``), and work on
documents (``lane``).
"""
