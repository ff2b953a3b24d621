"""The scenes of a drill, by name."""

from enum import StrEnum


class Scene(StrEnum):
    """What happens."""

    ROLLING_UPDATE = "rolling-update"
    """Settings of every deployment change, so that every replica is replaced."""
    KILL_REPLICAS = "kill-replicas"
    """One replica of every deployment behind the ingress is killed."""
    DRAIN_NODE = "drain-node"
    """A node is drained, as before its pod ends, and then goes."""
    LOSE_NODE = "lose-node"
    """A node is gone from one moment to the next."""
