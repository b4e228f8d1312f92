"""Spaces that ship."""
