"""Whose process this is."""

in_executor = False  # else a program of the user's own reads inline, and settings, generators and signals are its own
