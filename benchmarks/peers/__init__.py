"""Peers side by side: same models, data and machine, interleaved rounds, equal answers or no figure."""
