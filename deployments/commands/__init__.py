"""The commands of `crag`, one file each beside what they print with; `deployments.cli` gathers them."""
