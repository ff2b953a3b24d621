"""Attacks on a running server by what it is given to read, and how many of them succeed."""
