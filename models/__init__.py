"""Checkpoints and their training: torch + transformers on top of core."""
