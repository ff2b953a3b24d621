"""Clients who hang up, at every moment of an answer: what stops, and how soon."""
