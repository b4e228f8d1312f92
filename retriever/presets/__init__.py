"""Configurations and model sets that ship with the package, as data."""
