"""Sweeps: a space, its inert parameters, trials over a memo, and what may be concluded."""
