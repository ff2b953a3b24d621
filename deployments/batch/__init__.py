"""`crag batch`: files of questions answered on a cluster, exactly one record per line."""
