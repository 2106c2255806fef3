"""The ways a world goes wrong: kills, power cuts, lost answers and rivals, for tests only.

Nothing in ``dpone`` imports this package.
"""
