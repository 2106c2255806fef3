"""Values, closed codecs and transition tables.

Everything here is pure: no clock, no file, no socket, no randomness. Policy, adapters and the
reference models share these values; none of them may add behaviour to them.
"""
