"""Training and calibration of the models that crag-serve ships or loads."""
