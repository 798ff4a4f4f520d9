"""The lane: works one partition of a pass, batch by batch, under its lease.

Here lives the single write path: slice, batch, guards, pipelines, reading ahead. Not here: which partition there is
(``coordinator``), what follows a slice (``core.lane``), how bytes reach the server (the ``Documents`` port).
"""
