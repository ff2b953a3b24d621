"""`crag quality`: question sets through the serving path, scored against gold, compared and drawn."""
