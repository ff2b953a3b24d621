"""What serving alone costs: the whole application over leaves that answer at once."""
