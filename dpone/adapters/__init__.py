"""Implementations of the ports, one package for each product."""
