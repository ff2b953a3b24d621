"""Who gets in: the predicted wait of the whole cluster, and rates by key."""
