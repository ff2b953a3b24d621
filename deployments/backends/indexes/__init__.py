"""Indexes in LanceDB: built and searched."""
