"""The whole server without one feature at a time: what each is worth, and that none decides."""
