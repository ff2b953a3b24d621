"""Short programs a reader can run."""
