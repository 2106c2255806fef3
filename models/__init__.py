"""Executable models of the protocols, explored exhaustively within stated bounds."""
