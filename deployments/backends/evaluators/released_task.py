"""The tasks that the CRAG authors published thresholds for."""

from enum import StrEnum


class ReleasedTask(StrEnum):
    """A task of the paper; its thresholds are the released scripts', else the paper's."""

    POPQA = "popqa"
    PUBHEALTH = "pubhealth"
    ARC_CHALLENGE = "arc_challenge"
    BIOGRAPHY = "biography"

    @property
    def upper_and_lower(self) -> tuple[float, float]:
        """The action thresholds, signed."""
        return {
            ReleasedTask.POPQA: (0.592, -0.995),
            ReleasedTask.PUBHEALTH: (0.5, -0.915),
            ReleasedTask.ARC_CHALLENGE: (0.5, -0.91),
            ReleasedTask.BIOGRAPHY: (0.95, -0.91),
        }[self]
