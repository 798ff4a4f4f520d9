"""What people see in a terminal: bars, tables, words, numbers; Rich lives here.

Here lives how a status is shown, and the console that it is written to. Not here: commands and their options (``cli``),
what a status is (``engine.operator``).
"""
